/* engine/program.h -- what the build embeds for backends that are other programs. */
#ifndef WEFT_ENGINE_PROGRAM_H
#define WEFT_ENGINE_PROGRAM_H

/* The text of engine/bridge.py. */
extern const char weft__bridge[];

#endif
