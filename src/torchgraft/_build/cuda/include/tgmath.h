/* <tgmath.h>: CUDA's overloads, which compute in the type of their argument. */
#pragma once
#include "tg_constants.h"
