/* <math.h> with C's meaning: `exp(x)` computes in double precision, also of a float, where CUDA's own overloads do not.
 * <tgmath.h> has those. There is no long double on a GPU, and so there is no `expl`.
 */
#pragma once
#include "tg_constants.h"

#ifndef TG_BY_HAND /* CUDA's own meaning for those who write CUDA */

static inline bool tg_isnan(double x) { return x != x; }
static inline bool tg_isinf(double x) { return ::fabs(x) == HUGE_VAL; }
static inline bool tg_isfinite(double x) { return ::fabs(x) < HUGE_VAL; }
static inline bool tg_isnormal(double x, bool is_float) {
    return tg_isfinite(x) && ::fabs(x) >= (is_float ? 1.17549435e-38 : 2.2250738585072014e-308);
}

#define acos(x) (::acos((double)(x)))
#define acosh(x) (::acosh((double)(x)))
#define asin(x) (::asin((double)(x)))
#define asinh(x) (::asinh((double)(x)))
#define atan(x) (::atan((double)(x)))
#define atanh(x) (::atanh((double)(x)))
#define cbrt(x) (::cbrt((double)(x)))
#define ceil(x) (::ceil((double)(x)))
#define cos(x) (::cos((double)(x)))
#define cosh(x) (::cosh((double)(x)))
#define erf(x) (::erf((double)(x)))
#define erfc(x) (::erfc((double)(x)))
#define exp(x) (::exp((double)(x)))
#define exp2(x) (::exp2((double)(x)))
#define expm1(x) (::expm1((double)(x)))
#define fabs(x) (::fabs((double)(x)))
#define floor(x) (::floor((double)(x)))
#define lgamma(x) (::lgamma((double)(x)))
#define log(x) (::log((double)(x)))
#define log10(x) (::log10((double)(x)))
#define log1p(x) (::log1p((double)(x)))
#define log2(x) (::log2((double)(x)))
#define logb(x) (::logb((double)(x)))
#define nearbyint(x) (::nearbyint((double)(x)))
#define rint(x) (::rint((double)(x)))
#define round(x) (::round((double)(x)))
#define sin(x) (::sin((double)(x)))
#define sinh(x) (::sinh((double)(x)))
#define sqrt(x) (::sqrt((double)(x)))
#define tan(x) (::tan((double)(x)))
#define tanh(x) (::tanh((double)(x)))
#define tgamma(x) (::tgamma((double)(x)))
#define trunc(x) (::trunc((double)(x)))
#define atan2(x, y) (::atan2((double)(x), (double)(y)))
#define copysign(x, y) (::copysign((double)(x), (double)(y)))
#define fdim(x, y) (::fdim((double)(x), (double)(y)))
#define fmax(x, y) (::fmax((double)(x), (double)(y)))
#define fmin(x, y) (::fmin((double)(x), (double)(y)))
#define fmod(x, y) (::fmod((double)(x), (double)(y)))
#define hypot(x, y) (::hypot((double)(x), (double)(y)))
#define nextafter(x, y) (::nextafter((double)(x), (double)(y)))
#define pow(x, y) (::pow((double)(x), (double)(y)))
#define remainder(x, y) (::remainder((double)(x), (double)(y)))
#define fma(x, y, z) (::fma((double)(x), (double)(y), (double)(z)))
#define ldexp(x, n) (::ldexp((double)(x), n))
#define scalbn(x, n) (::scalbn((double)(x), n))
#define frexp(x, n) (::frexp((double)(x), n))
#define modf(x, n) (::modf((double)(x), n))
#define ilogb(x) (::ilogb((double)(x)))
#define lrint(x) (::lrint((double)(x)))
#define lround(x) (::lround((double)(x)))
#define llrint(x) (::llrint((double)(x)))
#define llround(x) (::llround((double)(x)))

#define isnan(x) tg_isnan((double)(x))
#define isinf(x) tg_isinf((double)(x))
#define isfinite(x) tg_isfinite((double)(x))
#define isnormal(x) tg_isnormal((double)(x), sizeof(x) == 4)
#define signbit(x) (__double_as_longlong((double)(x)) < 0)
#endif
