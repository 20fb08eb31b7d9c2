// backends/vulkan/shaders/elements.glsl -- moves elements bit for bit, by their size.
//
// Included after common.glsl. If BYTES is defined, an element may be one byte, which requires a
// device feature; the including file enables GL_EXT_shader_8bit_storage.
#ifdef BYTES
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer Bytes { uint8_t at[]; };
#endif
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer Pairs { uvec2 at[]; };

// `size` is a specialization constant: 1 (with BYTES), 2, 4 or 8.
uvec2 load_element(Words p, uint size, uint i)
{
#ifdef BYTES
    if (size == 1u) {
        return uvec2(uint(Bytes(p).at[i]), 0u);
    }
#endif
    if (size == 2u) {
        return uvec2(uint(Halves(p).at[i]), 0u);
    }
    return size == 4u ? uvec2(p.at[i], 0u) : Pairs(p).at[i];
}

void store_element(Words p, uint size, uint i, uvec2 value)
{
#ifdef BYTES
    if (size == 1u) {
        Bytes(p).at[i] = uint8_t(value.x);
        return;
    }
#endif
    if (size == 2u) {
        Halves(p).at[i] = uint16_t(value.x);
    } else if (size == 4u) {
        p.at[i] = value.x;
    } else {
        Pairs(p).at[i] = value;
    }
}
