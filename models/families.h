/* models/families.h -- the families that come with Weft, one line each. Included where FAMILY(name)
 * is defined; the literal is weft__family_<name>. */
FAMILY(llama)
FAMILY(mistral)
FAMILY(qwen2)
FAMILY(qwen3)
