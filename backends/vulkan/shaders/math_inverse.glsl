// backends/vulkan/shaders/math_inverse.glsl -- inverse hyperbolic functions and log10, for float
// and double.
//
// T is float or double. From the size SQUARE on, adding 1 to a square has no effect; SQUARE is also
// far below the range where squares overflow. LN2 and LOG10_E are constants of type T.
#define DEFINE_INVERSE(T, SQUARE, LN2, LOG10_E)                                                    \
    T asinh_(const T x)                                                                            \
    {                                                                                              \
        T a = magnitude_of(x);                                                                  \
        bool large = a > SQUARE;                                                                   \
        T z = large ? T(0) : a;                                                                    \
        precise T square = z * z;                                                                  \
        precise T below = T(1) + sqrt_(square + T(1));                                             \
        precise T t = z + div_(square, below);                                                     \
        precise T far = log_(a) + LN2;                                                             \
        return signed_(large || nan_(a) ? far : log1p_(t), x);                                   \
    }                                                                                              \
    T acosh_(const T x)                                                                            \
    {                                                                                              \
        bool below = x < T(1); /* the logarithm of a negative number is NaN */                     \
        bool far = below || x > SQUARE || nan_(x);                                                 \
        precise T z = (far ? T(1) : x) - T(1);                                                     \
        precise T square = z * (z + T(2));                                                         \
        precise T t = z + sqrt_(square);                                                           \
        precise T r = log_(below ? T(-1) : x) + LN2;                                               \
        return far ? r : log1p_(t);                                                                \
    }                                                                                              \
    T atanh_(const T x)                                                                            \
    {                                                                                              \
        T a = magnitude_of(x);                                                                  \
        precise T twice = a + a;                                                                   \
        precise T below = T(1) - a;                                                                \
        precise T r = T(0.5) * log1p_(div_(twice, below));                                         \
        return signed_(r, x);                                                                    \
    }                                                                                              \
    T log10_(const T x)                                                                            \
    {                                                                                              \
        precise T r = log_(x) * LOG10_E;                                                           \
        return r;                                                                                  \
    }

DEFINE_INVERSE(float, 1e8, 0.6931471805599453, 0.4342944819032518)
DEFINE_INVERSE(double, 1e16LF, 0.69314718055994530942LF, 0.43429448190325182765LF)
