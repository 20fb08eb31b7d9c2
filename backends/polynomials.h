/* backends/polynomials.h -- constants and minimax polynomials q of the functions of float, read as
 * C by cpu/vocabulary_float.h and as GLSL by vulkan/shaders/math.glsl. Arguments are variables. */
#ifndef BACKENDS_POLYNOMIALS_H
#define BACKENDS_POLYNOMIALS_H

#define LOG2_E 1.44269504f
#define LN2_HIGH 0.693145751953125f /* short, so that its product with an exponent is exact */
#define LN2_LOW 1.42860677e-06f
#define HALF_PI_HIGH 1.57079637f
#define HALF_PI_LOW (-4.37113883e-08f)

/* Horner's rule, the highest coefficient first. */
#define HORNER_1(x, a, b) ((a) * (x) + (b))
#define HORNER_2(x, a, b, c) (HORNER_1(x, a, b) * (x) + (c))
#define HORNER_3(x, a, b, c, d) (HORNER_2(x, a, b, c) * (x) + (d))
#define HORNER_4(x, a, b, c, d, e) (HORNER_3(x, a, b, c, d) * (x) + (e))
#define HORNER_5(x, a, b, c, d, e, f) (HORNER_4(x, a, b, c, d, e) * (x) + (f))
#define HORNER_6(x, a, b, c, d, e, f, g) (HORNER_5(x, a, b, c, d, e, f) * (x) + (g))
#define HORNER_7(x, a, b, c, d, e, f, g, h) (HORNER_6(x, a, b, c, d, e, f, g) * (x) + (h))
#define HORNER_8(x, a, b, c, d, e, f, g, h, i) (HORNER_7(x, a, b, c, d, e, f, g, h) * (x) + (i))
#define HORNER_9(x, a, b, c, d, e, f, g, h, i, j)                                                  \
    (HORNER_8(x, a, b, c, d, e, f, g, h, i) * (x) + (j))

/* e^r = 1 + r + r^2 q */
#define EXP_TERMS(r) HORNER_4(r, 0.00139506161f, 0.00836895313f, 0.0416662022f, 0.166665182f, 0.5f)
/* log(1 + f) = f + f^2 (f q - 1/2) */
#define LOG_TERMS(f)                                                                               \
    HORNER_7(f, -0.0785950422f, 0.128815889f, -0.131287739f, 0.141812041f, -0.166245535f,          \
             0.200022861f, -0.250008106f, 0.333333164f)
/* log2(1 + f) = f / ln 2 + f^2 q */
#define LOG2_TERMS(f)                                                                              \
    HORNER_9(f, 0.0970349237f, -0.16906406f, 0.17205672f, -0.178908572f, 0.205043495f,             \
             -0.240467221f, 0.288576186f, -0.360674143f, 0.480897903f, -0.721347511f)
/* erf(a) / a = 1 + q, z = a^2 */
#define ERF_TERMS(z)                                                                               \
    HORNER_6(z, 7.85387747e-05f, -0.000801019836f, 0.00518832821f, -0.0268538129f, 0.112835854f,   \
             -0.37612626f, 0.128379166f)
/* -log(1 - erf(b)), b from 1 to 4.05 */
#define ERF_TAIL_TERMS(b)                                                                          \
    HORNER_7(b, 2.14961638e-05f, -0.000439106923f, 0.00419361377f, -0.0251789745f, 0.108372487f,   \
             0.633262575f, 1.12955678f, -0.000183444979f)
/* erfinv(x) / x, t = w - 2.5, w = -log(1 - x^2) < 5 */
#define ERFINV_TERMS(t)                                                                            \
    HORNER_9(t, -8.66366801e-09f, 2.34135911e-08f, 4.64593569e-07f, -3.46471438e-06f,              \
             -4.95700124e-06f, 0.000218351255f, -0.00125275098f, -0.00417739386f, 0.246640295f,    \
             1.50140941f)
/* the same, s = sqrt(w) - 3, w >= 5 */
#define ERFINV_TAIL_TERMS(s)                                                                       \
    HORNER_9(s, 0.000102401988f, -0.000297355233f, -3.58659017e-05f, 0.00146884378f,               \
             -0.00360916276f, 0.0056935437f, -0.00763463881f, 0.00944448356f, 1.00167477f,         \
             2.83297682f)
/* sinh(a) = a + a z q, z = a^2 */
#define SINH_TERMS(z) HORNER_3(z, 2.81743974e-06f, 0.000198360663f, 0.00833335053f, 0.166666672f)
/* sin(r) = r + r z q, z = r^2 */
#define SINE_TERMS(z) HORNER_2(z, -0.000195166562f, 0.00833217334f, -0.166666552f)
/* cos(r) = 1 + z (z q - 1/2) */
#define COSINE_TERMS(z) HORNER_2(z, 2.44377316e-05f, -0.00138873619f, 0.0416666456f)
/* atan(z) = z + z t q, t = z^2 */
#define ATAN_TERMS(t)                                                                              \
    HORNER_8(t, -0.00182722497f, 0.0110644875f, -0.0314557701f, 0.0582345948f, -0.0841946006f,     \
             0.109575756f, -0.142652452f, 0.199986383f, -0.333333015f)
/* asin(s) = s + s z q, z = s^2 */
#define ASIN_TERMS(z)                                                                              \
    HORNER_4(z, 0.0422185436f, 0.0241476316f, 0.0454770885f, 0.0749524161f, 0.166667536f)

#endif
