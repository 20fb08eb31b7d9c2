/* text/tokenizer/buffer.c -- growing arrays of bytes and ids. */
#include "text/tokenizer/buffer.h"

#include <string.h>

#include "weft/memory.h"

weft_status weft__bytes_grow(void **data, size_t *capacity, size_t length, size_t more, size_t size)
{
    if (more <= *capacity - length)
        return WEFT_OK;
    size_t wanted = *capacity < 32 ? 32 : *capacity;
    while (wanted - length < more && wanted <= SIZE_MAX / 2 / size)
        wanted *= 2;
    void *larger = wanted - length < more ? NULL : weft_realloc(*data, wanted * size);
    if (!larger)
        return weft_fail(WEFT_MEMORY, "tokenizer: out of memory for %zu bytes", wanted * size);
    *data = larger;
    *capacity = wanted;
    return WEFT_OK;
}

weft_status weft__bytes_reserve(text_buffer *buffer, size_t more)
{
    void *data = buffer->data;
    const weft_status status = weft__bytes_grow(&data, &buffer->capacity, buffer->length, more, 1);
    buffer->data = data;
    return status;
}

weft_status weft__bytes_append(text_buffer *buffer, const char *text, size_t length)
{
    const weft_status status = weft__bytes_reserve(buffer, length);
    if (status || length == 0)
        return status;
    memcpy(buffer->data + buffer->length, text, length);
    buffer->length += length;
    return WEFT_OK;
}

void weft__bytes_release(text_buffer *buffer)
{
    weft_free(buffer->data);
    *buffer = (text_buffer){0};
}

weft_status weft__ids_append(id_buffer *buffer, int32_t id)
{
    if (buffer->length == buffer->capacity) {
        void *data = buffer->data;
        const weft_status status =
            weft__bytes_grow(&data, &buffer->capacity, buffer->length, 1, sizeof *buffer->data);
        buffer->data = data;
        if (status)
            return status;
    }
    buffer->data[buffer->length++] = id;
    return WEFT_OK;
}

weft_status weft__ids_append_all(id_buffer *buffer, const int32_t *ids, size_t count)
{
    if (count > buffer->capacity - buffer->length) {
        void *data = buffer->data;
        const weft_status status =
            weft__bytes_grow(&data, &buffer->capacity, buffer->length, count, sizeof *buffer->data);
        buffer->data = data;
        if (status)
            return status;
    }
    for (size_t i = 0; i < count; i++)
        buffer->data[buffer->length++] = ids[i];
    return WEFT_OK;
}

void weft__ids_release(id_buffer *buffer)
{
    weft_free(buffer->data);
    *buffer = (id_buffer){0};
}
