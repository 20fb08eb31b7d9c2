/* hub/card.c -- the card of a dataset: which files its configurations and splits have, in the YAML
 * header of README.md.
 *
 *     configs:
 *     - config_name: default
 *       data_files:
 *       - split: train
 *         path: data/train-*
 *
 * Format: huggingface.co/docs/datasets/repository_structure and .../docs/hub/datasets-data-files-
 * configuration. */
#include <string.h>

#include <yaml.h>

#include "core/failure.h"
#include "core/list.h"
#include "hub/dataset.h"
#include "weft/memory.h"

/* In a pattern: the time to match it grows with a power of their number. */
enum { MOST_STARS = 6 };

typedef struct reader {
    yaml_document_t document;
    const char *path;
    weft__hub_card *out;
    const char *config, *folder; /* of the current configuration; folder "": the repository */
    bool chosen;                 /* it is marked as the default */
} reader;

static weft_status malformed(const reader *r, const yaml_node_t *node, const char *what)
{
    return weft_fail(WEFT_INVALID, "%s:%zu: %s", r->path, node->start_mark.line + 2, what);
}

/* ---- nodes ---------------------------------------------------------------------------------- */

static const char *text_of(const yaml_node_t *node)
{
    return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : NULL;
}

/* A member of a mapping; NULL if there is none. */
static yaml_node_t *member(reader *r, const yaml_node_t *node, const char *name)
{
    if (node == NULL || node->type != YAML_MAPPING_NODE)
        return NULL;
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top;
         p++) {
        const char *key = text_of(yaml_document_get_node(&r->document, p->key));
        if (key && strcmp(key, name) == 0)
            return yaml_document_get_node(&r->document, p->value);
    }
    return NULL;
}

/* Calls `load` for the items of a list, or for a single value. */
static weft_status each(reader *r, const yaml_node_t *node, const char *split,
                        weft_status (*load)(reader *r, const yaml_node_t *item, const char *split))
{
    if (node->type != YAML_SEQUENCE_NODE)
        return load(r, node, split);
    weft_status status = WEFT_OK;
    const yaml_node_item_t *item = node->data.sequence.items.start;
    for (; status == WEFT_OK && item < node->data.sequence.items.top; item++)
        status = load(r, yaml_document_get_node(&r->document, *item), split);
    return status;
}

/* ---- data files ----------------------------------------------------------------------------- */

static weft_status add(reader *r, const char *split, const char *pattern)
{
    weft__hub_card *card = r->out;
    if (!weft__list_more(card->at, card->n))
        return weft__out_of_memory(r->path, NULL);
    weft__hub_data_files *to = &card->at[card->n++];
    const bool inside = *r->folder != '\0' && *pattern != '\0';
    *to = (weft__hub_data_files){
        .config = weft_strdup(r->config),
        .split = split ? weft_strdup(split) : NULL,
        .pattern = weft_format("%s%s%s", r->folder, inside ? "/" : "", pattern),
        .chosen = r->chosen,
    };
    return to->config && (to->split || split == NULL) && to->pattern
               ? WEFT_OK
               : weft__out_of_memory(r->path, NULL);
}

static weft_status add_path(reader *r, const yaml_node_t *node, const char *split)
{
    const char *path = text_of(node);
    int stars = 0;
    for (const char *c = path; c && *c != '\0'; c++)
        stars += *c == '*';
    if (path == NULL || *path == '\0')
        return malformed(r, node, "expected a path or pattern of data files");
    if (stars > MOST_STARS)
        return malformed(r, node, "a pattern of data files has too many *");
    return add(r, split, strncmp(path, "./", 2) == 0 ? path + 2 : path);
}

/* A path, or a mapping of a split and its paths, or of splits to paths. */
static weft_status add_files(reader *r, const yaml_node_t *node, const char *split)
{
    yaml_node_t *path = member(r, node, "path");
    const char *name = text_of(member(r, node, "split"));
    if (node->type != YAML_MAPPING_NODE)
        return add_path(r, node, split);
    if (path)
        return each(r, path, name ? name : split, add_path);
    weft_status status = WEFT_OK;
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start;
         status == WEFT_OK && p < node->data.mapping.pairs.top; p++) {
        name = text_of(yaml_document_get_node(&r->document, p->key));
        status = name ? each(r, yaml_document_get_node(&r->document, p->value), name, add_path)
                      : malformed(r, node, "expected the name of a split");
    }
    return status;
}

static weft_status add_config(reader *r, const yaml_node_t *node, const char *split)
{
    yaml_node_t *files = member(r, node, "data_files");
    const char *name = text_of(member(r, node, "config_name"));
    const char *folder = text_of(member(r, node, "data_dir"));
    const char *chosen = text_of(member(r, node, "default"));
    (void)split;
    if (node->type != YAML_MAPPING_NODE)
        return malformed(r, node, "expected a configuration: a mapping with config_name");
    r->config = name ? name : "default";
    r->chosen = chosen && strcmp(chosen, "true") == 0;
    r->folder = folder && strcmp(folder, ".") != 0 ? folder : "";
    return files ? each(r, files, "train", add_files) : add(r, NULL, "");
}

static weft_status read_configs(reader *r)
{
    yaml_node_t *configs = member(r, yaml_document_get_root_node(&r->document), "configs");
    return configs && configs->type == YAML_SEQUENCE_NODE ? each(r, configs, NULL, add_config)
                                                          : WEFT_OK;
}

/* ---- headers -------------------------------------------------------------------------------- */

/* The text between the first two lines of three dashes; NULL: there is none. */
static const char *header_of(const char *text, size_t length, size_t *size)
{
    const char *start = memchr(text, '\n', length), *end = text + length;
    if (length < 4 || memcmp(text, "---", 3) != 0 || start == NULL)
        return NULL;
    start++;
    for (const char *at = start; at + 3 <= end;) {
        if (memcmp(at, "---", 3) == 0) {
            *size = (size_t)(at - start);
            return start;
        }
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline ? newline + 1 : end;
    }
    return NULL;
}

weft_status weft__hub_card_parse(const char *text, size_t length, const char *path,
                                 weft__hub_card *out)
{
    reader r = {.path = path, .out = out};
    yaml_parser_t parser;
    size_t size = 0;
    const char *header = header_of(text, length, &size);
    *out = (weft__hub_card){0};
    if (header == NULL)
        return WEFT_OK;
    if (!yaml_parser_initialize(&parser))
        return weft__out_of_memory(path, NULL);
    yaml_parser_set_input_string(&parser, (const unsigned char *)header, size);
    weft_status status = WEFT_OK;
    if (!yaml_parser_load(&parser, &r.document)) {
        status = parser.error == YAML_MEMORY_ERROR
                     ? weft__out_of_memory(path, NULL)
                     : weft_fail(WEFT_INVALID, "%s:%zu: %s", path, parser.problem_mark.line + 2,
                                 parser.problem ? parser.problem : "malformed YAML");
    } else {
        status = read_configs(&r);
        yaml_document_delete(&r.document);
    }
    yaml_parser_delete(&parser);
    if (status != WEFT_OK)
        weft__hub_card_free(out);
    return status;
}
