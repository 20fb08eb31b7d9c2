#!/usr/bin/env bash
# tools/shader.sh OUTPUT SOURCE [GLSLC OPTION...] -- compiles a compute shader to SPIR-V, once for
# all build folders: the result is kept under a hash of the text after its includes, the options and
# the compiler, in ${WEFT_SHADER_CACHE:-~/.cache/weft/shaders}, if that folder can be written.
set -euo pipefail
output=$1
source=$2
shift 2

options=(--target-env=vulkan1.2 -O -fshader-stage=compute -I "$(dirname "$source")" "$@")
caches=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
cache=${WEFT_SHADER_CACHE:-${caches:+$caches/weft/shaders}}

if [ -n "$cache" ] && mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ]; then
    text=$(glslc "${options[@]}" -E "$source")
    key=$( (glslc --version && printf '%s\n' "$@" "$text") | sha256sum | cut -d ' ' -f 1)
    kept=$cache/$key.spv
    if [ ! -e "$kept" ]; then
        glslc "${options[@]}" -o "$kept.$$" "$source"
        mv "$kept.$$" "$kept"
    fi
    cp "$kept" "$output"
else
    glslc "${options[@]}" -o "$output" "$source"
fi
# The output's dependencies, for the build.
glslc "${options[@]}" -M -MT "$output" "$source" >"$output.d"
