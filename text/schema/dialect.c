/* text/schema/dialect.c -- schemas as other programs write them: within the objects that
 * chat APIs take. */
#include <string.h>

#include "text/schema/keywords.h"
#include "text/schema/schema.h"

/* The member of a request that contains the schema, directly or within another request; NULL: this
 * is a schema. */
static json_object *unwrap(json_object *value)
{
    static const char *const members[] = {"json_schema", "function", "schema", "parameters",
                                          "input_schema"};
    json_object *inside = NULL;
    const char *type = weft__json_plain(json_object_object_get(value, "type"));
    const bool request = type ? strcmp(type, "json_schema") == 0 || strcmp(type, "function") == 0
                              : json_object_object_get_ex(value, "name", NULL);
    for (size_t i = 0; request && !inside && i < sizeof members / sizeof *members; i++) {
        inside = json_object_object_get(value, members[i]);
        if (!json_object_is_type(inside, json_type_object))
            inside = NULL;
    }
    return inside;
}

weft_status weft__schema_read(const char *text, size_t length, const char *name,
                              weft__json_doc *out)
{
    weft_status status = weft__json_parse(text, length, name, out);
    if (status)
        return status;
    for (json_object *inside; (inside = unwrap(out->root));) {
        json_object_get(inside);
        json_object_put(out->root);
        out->root = inside;
    }
    const weft__json root = weft__json_root(out);
    status = weft__keywords_check(&root);
    if (status)
        weft__json_free(out);
    return status;
}
