/* text/tokenizer/decoder.c -- the decoders: ByteLevel, WordPiece, and the steps of
 * SentencePiece-like decoders. */
#include "text/tokenizer/decoder.h"

#include <string.h>

#include "core/failure.h"
#include "core/io/utf8.h"
#include "text/tokenizer/bpe.h"
#include "weft/memory.h"

/* ---- loading -------------------------------------------------------------------------------- */

static weft_status copy(const weft__json *at, const char *text, char **out, size_t *length)
{
    *length = strlen(text);
    *out = weft_strdup(text);
    return *out ? WEFT_OK : weft__out_of_memory(at->name, NULL);
}

static weft_status add_replace(const weft__json *at, const char *from, const char *to,
                               text_decoder *out)
{
    if (out->replace_count == DECODER_MAX_REPLACES)
        return weft__json_fail(at, WEFT_UNSUPPORTED, "more than %d replacements",
                               DECODER_MAX_REPLACES);
    if (!*from)
        return weft__json_fail(at, WEFT_INVALID, "replaces an empty text");
    decoder_replace *r = &out->replaces[out->replace_count++];
    const weft_status status = copy(at, from, &r->from, &r->from_length);
    return status ? status : copy(at, to, &r->to, &r->to_length);
}

static weft_status load_replace(const weft__json *at, text_decoder *out)
{
    weft__json pattern;
    const char *from = NULL, *to = NULL;
    weft_status status = weft__json_get(at, "pattern", &pattern);
    if (!status)
        status = weft__json_find_string(&pattern, "String", &from);
    if (!status && !from)
        status = weft__json_fail(&pattern, WEFT_UNSUPPORTED, "only a String is supported here");
    if (!status)
        status = weft__json_get_string(at, "content", &to);
    return status ? status : add_replace(at, from, to, out);
}

static weft_status load_strip(const weft__json *at, text_decoder *out)
{
    const char *content = NULL;
    int64_t start = 0, stop = 0;
    weft_status status = weft__json_get_string(at, "content", &content);
    if (!status)
        status = weft__json_get_int(at, "start", &start);
    if (!status)
        status = weft__json_get_int(at, "stop", &stop);
    if (status)
        return status;
    if (stop != 0 || start < 0 || start > 64 || strlen(content) != 1 || (content[0] & 0x80))
        return weft__json_fail(at, WEFT_UNSUPPORTED,
                               "only ASCII characters at the start can be stripped");
    if (!out->fuse)
        return weft__json_fail(at, WEFT_UNSUPPORTED, "Strip without Fuse before it");
    out->strip = content[0];
    out->strip_start = (int)start;
    return WEFT_OK;
}

/* The inverse of the pre-tokenizer of the same name. */
static weft_status load_metaspace(const weft__json *at, text_decoder *out)
{
    const char *mark = "\xE2\x96\x81", *scheme = NULL;
    bool prefix = true;
    weft_status status = weft__json_find_string(at, "replacement", &mark);
    if (!status)
        status = weft__json_find_string(at, "prepend_scheme", &scheme);
    if (!status)
        status = weft__json_find_bool(at, "add_prefix_space", &prefix);
    if (status)
        return status;
    if (out->replace_count > 0)
        return weft__json_fail(at, WEFT_UNSUPPORTED, "Metaspace behind Replace");
    out->drop_first = scheme ? strcmp(scheme, "never") != 0 : prefix;
    return add_replace(at, mark, " ", out);
}

static weft_status load_word_piece(const weft__json *at, text_decoder *out)
{
    const char *prefix = "##";
    out->kind = DECODE_WORD_PIECES;
    out->cleanup = true;
    weft_status status = weft__json_find_string(at, "prefix", &prefix);
    if (!status)
        status = weft__json_find_bool(at, "cleanup", &out->cleanup);
    return status ? status : copy(at, prefix, &out->prefix, &out->prefix_length);
}

static weft_status load_step(const weft__json *at, text_decoder *out)
{
    const char *type = NULL;
    const weft_status status = weft__json_get_string(at, "type", &type);
    if (status)
        return status;
    out->kind = DECODE_CHARACTERS;
    if (strcmp(type, "Replace") == 0)
        return load_replace(at, out);
    if (strcmp(type, "Strip") == 0)
        return load_strip(at, out);
    if (strcmp(type, "Metaspace") == 0)
        return load_metaspace(at, out);
    if (strcmp(type, "ByteFallback") == 0)
        out->byte_fallback = true;
    else if (strcmp(type, "Fuse") == 0)
        out->fuse = true;
    else
        return weft__json_fail(at, WEFT_UNSUPPORTED, "decoder type \"%s\" is unsupported",
                               weft_printable(type));
    return WEFT_OK;
}

/* A Sequence with only ByteLevel is ByteLevel; other steps run in the order in which files list
 * them: Replace, ByteFallback, Fuse, Strip. */
static weft_status load_list(const weft__json *at, text_decoder *out)
{
    static const char *const order[] = {"Replace", "ByteFallback", "Fuse", "Strip"};
    weft__json list, item;
    size_t count = 0, rank = 0;
    weft_status status = weft__json_get(at, "decoders", &list);
    if (!status)
        status = weft__json_length(&list, &count);
    for (size_t i = 0; i < count && !status; i++) {
        const char *type = NULL;
        status = weft__json_at(&list, i, &item);
        if (!status)
            status = weft__json_get_string(&item, "type", &type);
        if (!status && count == 1 && strcmp(type, "ByteLevel") == 0) {
            out->kind = DECODE_BYTES;
            return WEFT_OK;
        }
        if (!status && count == 1 && strcmp(type, "WordPiece") == 0)
            return load_word_piece(&item, out);
        if (!status)
            status = load_step(&item, out);
        for (size_t k = 0; k < sizeof order / sizeof *order && !status; k++) {
            if (strcmp(type, order[k]) != 0)
                continue;
            if (k < rank)
                return weft__json_fail(&item, WEFT_UNSUPPORTED, "\"%s\" behind \"%s\"",
                                       weft_printable(type), weft_printable(order[rank]));
            rank = k;
        }
    }
    return status;
}

weft_status weft__decoder_load(const weft__json *root, text_decoder *out)
{
    *out = (text_decoder){0};
    weft__json at;
    const char *type = NULL;
    weft_status status = weft__json_find(root, "decoder", &at);
    if (status || !at.value)
        return status;
    status = weft__json_get_string(&at, "type", &type);
    if (!status && strcmp(type, "ByteLevel") == 0)
        out->kind = DECODE_BYTES;
    else if (!status && strcmp(type, "WordPiece") == 0)
        status = load_word_piece(&at, out);
    else if (!status && strcmp(type, "Sequence") == 0)
        status = load_list(&at, out);
    else if (!status)
        status = load_step(&at, out);
    if (status)
        weft__decoder_release(out);
    return status;
}

weft_status weft__decoder_from_marks(text_decoder *out, bool prefix, const char *name)
{
    const weft__json at = {.name = name};
    *out = (text_decoder){.kind = DECODE_CHARACTERS,
                          .byte_fallback = true,
                          .fuse = true,
                          .strip_start = prefix,
                          .strip = ' '};
    return add_replace(&at, "\xE2\x96\x81", " ", out);
}

void weft__decoder_release(text_decoder *decoder)
{
    for (int i = 0; i < decoder->replace_count; i++) {
        weft_free(decoder->replaces[i].from);
        weft_free(decoder->replaces[i].to);
    }
    weft_free(decoder->prefix);
    *decoder = (text_decoder){0};
}

void weft__decoder_state_release(decoder_state *state)
{
    weft__bytes_release(&state->pending);
    weft__bytes_release(&state->work[0]);
    weft__bytes_release(&state->work[1]);
    *state = (decoder_state){0};
}

void weft__decoder_state_reset(decoder_state *state)
{
    state->pending.length = 0;
    state->started = false;
    state->stripped = 0;
}

/* ---- decoding ------------------------------------------------------------------------------- */

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

/* Moves the complete characters of `pending` to `out`; at the end of the text also an incomplete
 * one. */
static weft_status flush_bytes(text_buffer *pending, bool end, text_buffer *out)
{
    weft_status status = WEFT_OK;
    size_t i = 0;
    while (i < pending->length && !status) {
        const char *text = pending->data + i;
        const size_t left = pending->length - i;
        const size_t valid = weft__utf8_valid(text, left);
        if (valid > 0) {
            status = weft__bytes_append(out, text, valid);
            i += valid;
            continue;
        }
        const int step = weft__utf8_step(text, left);
        if (step == 0 && !end)
            break;
        status = weft__bytes_append(out, replacement, 3);
        i += step == 0 ? left : (size_t)-step;
    }
    if (status)
        return status;
    pending->length -= i;
    if (pending->length > 0 && i > 0)
        memmove(pending->data, pending->data + i, pending->length);
    return WEFT_OK;
}

/* Decodes a token to bytes if all of its characters spell bytes; any other token (an added one) is
 * copied. */
static weft_status decode_bytes(decoder_state *state, const char *token, size_t length,
                                text_buffer *out)
{
    text_buffer *pending = &state->pending;
    weft_status status = weft__bytes_reserve(pending, length);
    if (status)
        return status;
    const size_t before = pending->length;
    for (size_t i = 0; i < length;) {
        const int size = weft__utf8_step(token + i, length - i);
        const int byte = weft__char_to_byte(weft__utf8_decode(token + i, size));
        if (byte < 0) {
            pending->length = before;
            status = weft__bytes_append(pending, token, length);
            break;
        }
        pending->data[pending->length++] = (char)byte;
        i += (size_t)size;
    }
    return status ? status : flush_bytes(pending, false, out);
}

/* Appends characters, except those stripped from the start of the whole text. */
static weft_status put(const text_decoder *decoder, decoder_state *state, const char *text,
                       size_t length, text_buffer *out)
{
    while (length > 0 && state->stripped < decoder->strip_start) {
        if (*text != decoder->strip) {
            state->stripped = decoder->strip_start;
            break;
        }
        state->stripped++;
        text++;
        length--;
    }
    return weft__bytes_append(out, text, length);
}

/* A run of byte tokens becomes text if it is valid UTF-8, else one U+FFFD per byte. */
static weft_status flush_run(const text_decoder *decoder, decoder_state *state, text_buffer *out)
{
    const size_t length = state->pending.length;
    weft_status status = WEFT_OK;
    if (length == 0)
        return WEFT_OK;
    if (weft__utf8_valid(state->pending.data, length) == length)
        status = put(decoder, state, state->pending.data, length, out);
    else
        for (size_t i = 0; i < length && !status; i++)
            status = put(decoder, state, replacement, 3, out);
    state->pending.length = 0;
    return status;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte of a "<0xXX>" token, or -1. */
static int byte_token(const char *token, size_t length)
{
    if (length != 6 || memcmp(token, "<0x", 3) != 0 || token[5] != '>')
        return -1;
    const int high = hex_digit(token[3]), low = hex_digit(token[4]);
    return high < 0 || low < 0 ? -1 : 16 * high + low;
}

static weft_status replace_all(const decoder_replace *r, bool drop, const char *text, size_t length,
                               text_buffer *out)
{
    out->length = 0;
    size_t done = 0;
    weft_status status = WEFT_OK;
    for (size_t i = 0; i + r->from_length <= length && !status;) {
        if (memcmp(text + i, r->from, r->from_length) != 0) {
            i++;
            continue;
        }
        status = weft__bytes_append(out, text + done, i - done);
        if (!status && !drop)
            status = weft__bytes_append(out, r->to, r->to_length);
        i += r->from_length;
        done = i;
    }
    return status ? status : weft__bytes_append(out, text + done, length - done);
}

static weft_status decode_characters(const text_decoder *decoder, decoder_state *state,
                                     const char *token, size_t length, text_buffer *out)
{
    weft_status status = WEFT_OK;
    const bool drop = decoder->drop_first && !state->started;
    state->started = true;
    for (int i = 0; i < decoder->replace_count && !status; i++) {
        text_buffer *work = &state->work[i & 1];
        status = replace_all(&decoder->replaces[i], drop && i == 0, token, length, work);
        token = work->length > 0 ? work->data : "";
        length = work->length;
    }
    if (status)
        return status;
    const int byte = decoder->byte_fallback ? byte_token(token, length) : -1;
    if (byte >= 0) {
        const char c = (char)byte;
        return weft__bytes_append(&state->pending, &c, 1);
    }
    status = flush_run(decoder, state, out);
    return status ? status : put(decoder, state, token, length, out);
}

/* Replacements of the WordPiece decoder in each token, in order. */
static const decoder_replace cleanups[] = {
#define CLEANUP(from, to)                                                                          \
    {                                                                                              \
        (char *)(from), (char *)(to), sizeof(from) - 1, sizeof(to) - 1                             \
    }
    CLEANUP(" .", "."),     CLEANUP(" ?", "?"),           CLEANUP(" !", "!"),
    CLEANUP(" ,", ","),     CLEANUP(" ' ", "'"),          CLEANUP(" n't", "n't"),
    CLEANUP(" 'm", "'m"),   CLEANUP(" do not", " don't"), CLEANUP(" 's", "'s"),
    CLEANUP(" 've", "'ve"), CLEANUP(" 're", "'re"),
#undef CLEANUP
};

static weft_status decode_word_piece(const text_decoder *decoder, decoder_state *state,
                                     const char *token, size_t length, text_buffer *out)
{
    const size_t prefix = decoder->prefix_length;
    const bool first = !state->started;
    const bool joins = !first && length >= prefix && memcmp(token, decoder->prefix, prefix) == 0;
    text_buffer *work = &state->work[0];
    work->length = 0;
    state->started = true;
    weft_status status = first || joins ? WEFT_OK : weft__bytes_append(work, " ", 1);
    if (!status)
        status =
            weft__bytes_append(work, token + (joins ? prefix : 0), length - (joins ? prefix : 0));
    for (size_t i = 0; decoder->cleanup && i < sizeof cleanups / sizeof *cleanups && !status; i++) {
        text_buffer *next = work == &state->work[0] ? &state->work[1] : &state->work[0];
        if (work->length > 0)
            status = replace_all(&cleanups[i], false, work->data, work->length, next);
        work = work->length > 0 ? next : work;
    }
    return status || work->length == 0 ? status : weft__bytes_append(out, work->data, work->length);
}

weft_status weft__decode_token(const text_decoder *decoder, decoder_state *state, const char *token,
                               size_t length, text_buffer *out)
{
    weft_status status = WEFT_OK;
    if (decoder->kind == DECODE_BYTES)
        return decode_bytes(state, token, length, out);
    if (decoder->kind == DECODE_CHARACTERS)
        return decode_characters(decoder, state, token, length, out);
    if (decoder->kind == DECODE_WORD_PIECES)
        return decode_word_piece(decoder, state, token, length, out);
    if (state->started)
        status = weft__bytes_append(out, " ", 1);
    state->started = true;
    return status ? status : weft__bytes_append(out, token, length);
}

weft_status weft__decode_end(const text_decoder *decoder, decoder_state *state, text_buffer *out)
{
    if (decoder->kind == DECODE_BYTES)
        return flush_bytes(&state->pending, true, out);
    return flush_run(decoder, state, out);
}
