/* tests/reference/lines_fft.h -- lines of weft/fft.h. */
/* clang-format off */
LINE("fft.fft", weft_fft, weft_fft(f(0, N, 4), 0, 1, WEFT_FFT_BACKWARD))
LINE("fft.ifft", weft_ifft, weft_ifft(z(0, N, 4), 0, 1, WEFT_FFT_BACKWARD))
LINE("fft.fft2", weft_fft2, weft_fft2(f(0, 2, 2), NO_AXES, WEFT_ALL_AXES, WEFT_FFT_ORTHO))
LINE("fft.ifft2", weft_ifft2, weft_ifft2(z(0, 2, 2), NO_AXES, WEFT_ALL_AXES, WEFT_FFT_ORTHO))
LINE("fft.fftn", weft_fftn, weft_fftn(f(0, N, 4), NO_AXES, WEFT_DIMS(1), WEFT_FFT_BACKWARD))
LINE("fft.ifftn", weft_ifftn, weft_ifftn(z(0, N, 4), NO_AXES, WEFT_DIMS(1), WEFT_FFT_BACKWARD))
LINE("fft.rfft", weft_rfft, weft_rfft(f(0, N, 4), 0, 1, WEFT_FFT_BACKWARD))
LINE("fft.rfft2", weft_rfft2, weft_rfft2(f(0, 2, 4), NO_AXES, WEFT_ALL_AXES, WEFT_FFT_BACKWARD))
LINE("fft.rfftn", weft_rfftn, weft_rfftn(f(0, N, 4), NO_AXES, WEFT_DIMS(1), WEFT_FFT_BACKWARD))
LINE("fft.irfft", weft_irfft, weft_irfft(z(0, N, 3), 0, 1, WEFT_FFT_BACKWARD))
LINE("fft.irfft2", weft_irfft2, weft_irfft2(z(0, 2, 3), NO_AXES, WEFT_ALL_AXES, WEFT_FFT_BACKWARD))
LINE("fft.irfftn", weft_irfftn,
     weft_irfftn(z(0, N, 3), NO_AXES, WEFT_DIMS(1), WEFT_FFT_BACKWARD))
LINE("fft.fftfreq", weft_fftfreq, weft_fftfreq(4, 0.5))
LINE("fft.rfftfreq", weft_rfftfreq, weft_rfftfreq(4, 0.5))
LINE("fft.fftshift", weft_fftshift, weft_fftshift(f(0, N, 4), WEFT_DIMS(1)))
LINE("fft.ifftshift", weft_ifftshift, weft_ifftshift(f(0, N, 4), WEFT_DIMS(1)))
