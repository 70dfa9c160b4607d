/* The constants of CUDA, for g++. */
#pragma once
#include <cmath>
