/* C++ has its names. */
#pragma once
