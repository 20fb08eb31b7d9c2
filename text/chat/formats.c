/* text/chat/formats.c -- the built-in chat templates, for models without one. A format supports
 * tools only if the model family defines how; the others refuse tools. */
#include <stddef.h>
#include <string.h>

#include "text/chat/chat.h"

/* The text of a content, which may be a list of parts. */
#define TEXT_MACRO                                                                                 \
    "{%- macro text(content) -%}"                                                                  \
    "{%- if content is string -%}{{ content }}{%- else -%}"                                        \
    "{%- for part in content if part.type == 'text' -%}{{ part.text }}{%- endfor -%}"              \
    "{%- endif -%}{%- endmacro -%}"
#define NO_TOOLS                                                                                   \
    "{%- for message in messages if tools or message.tool_calls or message.role == 'tool' -%}"     \
    "{{ raise_exception('the built-in format has no tools') }}{%- endfor -%}"
#define ALTERNATING                                                                                \
    "{%- if (message.role == 'user') != (loop.index0 % 2 == 0) -%}"                                \
    "{{ raise_exception('expected turns of user and assistant that alternate') }}{%- endif -%}"

static const char gemma[] = TEXT_MACRO NO_TOOLS
    "{{- bos_token | default('<bos>') -}}"
    "{%- set system = messages[0].role == 'system' -%}"
    "{%- for message in (messages[1:] if system else messages) -%}" ALTERNATING
    "{{- '<start_of_turn>' + ('model' if message.role == 'assistant' else message.role) + '\\n' -}}"
    "{%- if loop.first and system -%}{{- text(messages[0].content) + '\\n\\n' -}}{%- endif -%}"
    "{{- (text(message.content) | trim) + '<end_of_turn>\\n' -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<start_of_turn>model\\n' -}}{%- endif -%}";

/* ---- ChatML --------------------------------------------------------------------------------- */

#define CHATML_TURNS                                                                               \
    "{%- for message in messages -%}"                                                              \
    "{{- '<|im_start|>' + message.role + '\\n' + text(message.content) + '<|im_end|>\\n' -}}"      \
    "{%- endfor -%}"                                                                               \
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
#define CHATML_SYSTEM(WORDS)                                                                       \
    "{%- if messages[0].role != 'system' -%}"                                                      \
    "{{- '<|im_start|>system\\n" WORDS "<|im_end|>\\n' -}}{%- endif -%}"

/* Tools as Hermes 2 Pro and Qwen 2.5 were trained with them: JSON in tags, in the system turn, in
 * the answer's calls, and for results in a turn of the user. */
#define CHATML_TOOLS                                                                               \
    "{%- if tools -%}{{- '<|im_start|>system\\n' -}}"                                              \
    "{%- if messages[0].role == 'system' -%}{{- text(messages[0].content) + '\\n\\n' -}}"          \
    "{%- endif -%}"                                                                                \
    "{{- '# Tools\\n\\nYou may call one or more functions to assist with the user query.\\n\\n'"   \
    " + 'You are provided with function signatures within <tools></tools> XML tags:\\n<tools>' "   \
    "-}}"                                                                                          \
    "{%- for tool in tools -%}{{- '\\n' + tool | tojson -}}{%- endfor -%}"                         \
    "{{- '\\n</tools>\\n\\nFor each function call, return a json object with function name and '"  \
    " + 'arguments within <tool_call></tool_call> XML tags:\\n<tool_call>\\n'"                     \
    " + '{\"name\": <function-name>, \"arguments\": <args-json-object>}\\n</tool_call>'"           \
    " + '<|im_end|>\\n' -}}{%- endif -%}"
#define CHATML_CALL                                                                                \
    "{%- macro written(f) -%}{{- '\\n<tool_call>\\n{\"name\": \"' + f.name + '\", \"arguments\": " \
    "' -}}"                                                                                        \
    "{{- (f.arguments if f.arguments is string else f.arguments | tojson) -}}"                     \
    "{{- '}\\n</tool_call>' -}}{%- endmacro -%}"
#define CHATML_TOOL_TURNS                                                                          \
    "{%- set told = tools and messages[0].role == 'system' -%}"                                    \
    "{%- for message in (messages[1:] if told else messages) -%}"                                  \
    "{%- if message.role == 'tool' -%}"                                                            \
    "{%- if loop.first or loop.previtem.role != 'tool' -%}{{- '<|im_start|>user' -}}{%- endif -%}" \
    "{{- '\\n<tool_response>\\n' + text(message.content) + '\\n</tool_response>' -}}"              \
    "{%- if loop.last or loop.nextitem.role != 'tool' -%}{{- '<|im_end|>\\n' -}}{%- endif -%}"     \
    "{%- else -%}{{- '<|im_start|>' + message.role -}}"                                            \
    "{%- set content = text(message.content) -%}"                                                  \
    "{{- '\\n' + content if content or not message.tool_calls -}}"                                 \
    "{%- for call in message.tool_calls or [] -%}{{- written(call.function or call) -}}"           \
    "{%- endfor -%}{{- '<|im_end|>\\n' -}}{%- endif -%}{%- endfor -%}"                             \
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"

static const char chatml[] = TEXT_MACRO CHATML_CALL CHATML_TOOLS CHATML_TOOL_TURNS;
static const char qwen2[] =
    TEXT_MACRO NO_TOOLS CHATML_SYSTEM("You are a helpful assistant.") CHATML_TURNS;
static const char qwen2_5[] = TEXT_MACRO NO_TOOLS CHATML_SYSTEM(
    "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.") CHATML_TURNS;

/* Past answers are rendered without their reasoning. */
#define QWEN3_TURNS                                                                                \
    "{%- for message in messages -%}"                                                              \
    "{%- set content = text(message.content) -%}"                                                  \
    "{%- if message.role == 'assistant' and '</think>' in content -%}"                             \
    "{%- set content = content.split('</think>')[-1].lstrip('\\n') -%}{%- endif -%}"               \
    "{{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>\\n' -}}"                    \
    "{%- endfor -%}"

static const char qwen3[] = TEXT_MACRO NO_TOOLS QWEN3_TURNS
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}"
    "{%- if enable_thinking is false -%}{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}"
    "{%- endif -%}";

#define THINKING_PROMPT                                                                            \
    "{%- if enable_thinking is true -%}{{- '<think>\\n' -}}"                                       \
    "{%- elif enable_thinking is false -%}{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}"

static const char qwen3_5[] = TEXT_MACRO NO_TOOLS
    "{%- set enable_thinking = enable_thinking | default(true) -%}" QWEN3_TURNS
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}" THINKING_PROMPT
    "{%- endif -%}";

/* ---- MiniCPM -------------------------------------------------------------------------------- */

#define MINICPM5_SYSTEM                                                                            \
    "{%- set system = messages[0].role == 'system' -%}"                                            \
    "{%- if system or tools -%}{{- '<|im_start|>system\\n' -}}"                                    \
    "{%- if system -%}{{- text(messages[0].content) -}}{%- endif -%}"                              \
    "{%- if system and tools -%}{{- '\\n\\n' -}}{%- endif -%}"                                     \
    "{%- if tools -%}{{- '# Tools\\n\\nYou are provided with function signatures within '"         \
    " + '<tools></tools> XML tags:\\n<tools>' -}}"                                                 \
    "{%- for tool in tools -%}{{- '\\n' + tool | tojson(ensure_ascii=false) -}}{%- endfor -%}"     \
    "{{- '\\n</tools>\\n\\nTool usage guidelines:\\n- You may call zero or more functions. If no " \
    "'"                                                                                            \
    " + 'function calls are needed, just answer normally and do not include any '"                 \
    " + '<function ... </function>.\\n- When calling a function, return an XML object within '"    \
    " + '<function ... </function> using:\\n<function name=\"function-name\">'"                    \
    " + '<param name=\"param-name\">param-value</param></function>\\n- param-value may be '"       \
    " + 'multi-line. If it contains <, & or newline characters, wrap it in a CDATA block: '"       \
    " + '<param name=\"param-name\"><![CDATA[...multi-line value...]]></param>' -}}{%- endif -%}"  \
    "{{- '<|im_end|>\\n' -}}{%- endif -%}"
/* Strings that contain marks or several lines are in CDATA; other values are JSON. */
#define MINICPM5_CALL                                                                              \
    "{%- macro written(f) -%}{%- if f.arguments is not mapping -%}"                                \
    "{{ raise_exception('expected arguments of a tool call as an object') }}{%- endif -%}"         \
    "{{- '<function name=\"' + f.name + '\">' -}}"                                                 \
    "{%- for name, value in f.arguments.items() -%}{{- '<param name=\"' + name + '\">' -}}"        \
    "{%- set value = value if value is string else value | tojson(ensure_ascii=false) -%}"         \
    "{%- if '<' in value or '&' in value or '\\n' in value -%}"                                    \
    "{%- set value = '<![CDATA[' + value + ']]>' -%}{%- endif -%}"                                 \
    "{{- value + '</param>' -}}{%- endfor -%}{{- '</function>' -}}{%- endmacro -%}"
/* Every answer has a reasoning part, which may be empty; consecutive tool results form one turn of
 * the user. */
#define MINICPM5_TURNS                                                                             \
    "{%- set turns = messages[1:] if system else messages -%}"                                     \
    "{%- for message in turns -%}"                                                                 \
    "{%- set content = text(message.content) -%}"                                                  \
    "{%- if message.role == 'tool' -%}"                                                            \
    "{%- if loop.first or turns[loop.index0 - 1].role != 'tool' -%}"                               \
    "{{- '<|im_start|>user' -}}{%- endif -%}"                                                      \
    "{{- '\\n<tool_response>\\n' + content + '\\n</tool_response>' -}}"                            \
    "{%- if loop.last or turns[loop.index0 + 1].role != 'tool' -%}"                                \
    "{{- '<|im_end|>\\n' -}}{%- endif -%}"                                                         \
    "{%- else -%}{{- '<|im_start|>' + message.role + '\\n' -}}"                                    \
    "{%- if message.role == 'assistant' -%}"                                                       \
    "{%- set reasoning = message.reasoning_content | default('') -%}"                              \
    "{%- if '</think>' in content and not reasoning -%}"                                           \
    "{%- set reasoning = content.split('</think>')[0].split('<think>')[-1].strip('\\n') -%}"       \
    "{%- set content = content.split('</think>')[-1].lstrip('\\n') -%}{%- endif -%}"               \
    "{{- '<think>\\n' + reasoning + '\\n</think>\\n\\n' -}}{%- endif -%}"                          \
    "{{- content -}}{%- for tool_call in message.tool_calls or [] -%}"                             \
    "{{- '\\n' if content or not loop.first else '' -}}"                                           \
    "{{- written(tool_call.function or tool_call) -}}{%- endfor -%}"                               \
    "{{- '<|im_end|>\\n' -}}{%- endif -%}{%- endfor -%}"

static const char minicpm5[] = TEXT_MACRO MINICPM5_CALL
    "{{- bos_token | default('<s>') -}}" MINICPM5_SYSTEM MINICPM5_TURNS
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}" THINKING_PROMPT
    "{%- endif -%}";

static const char minicpm4[] =
    TEXT_MACRO NO_TOOLS "{{- bos_token | default('<s>') -}}" CHATML_TURNS;

static const char minicpm1[] = TEXT_MACRO NO_TOOLS
    "{{- bos_token | default('<s>') -}}"
    "{%- for message in messages -%}"
    "{{- ('<AI>' if message.role == 'assistant' else '<\xe7\x94\xa8\xe6\x88\xb7>') -}}"
    "{{- text(message.content) -}}{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<AI>' -}}{%- endif -%}";

/* ---- Llama 3 -------------------------------------------------------------------------------- */

#define LLAMA_TURNS                                                                                \
    "{%- for message in messages -%}"                                                              \
    "{{- '<|start_header_id|>' + message.role + '<|end_header_id|>\\n\\n' -}}"                     \
    "{{- (text(message.content) | trim) + '<|eot_id|>' -}}{%- endfor -%}"                          \
    "{%- if add_generation_prompt -%}"                                                             \
    "{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' -}}{%- endif -%}"

static const char llama_3_0[] =
    TEXT_MACRO NO_TOOLS "{{- bos_token | default('<|begin_of_text|>') -}}" LLAMA_TURNS;
static const char llama[] = TEXT_MACRO NO_TOOLS
    "{{- bos_token | default('<|begin_of_text|>') -}}"
    "{{- '<|start_header_id|>system<|end_header_id|>\\n\\n' -}}"
    "{{- 'Cutting Knowledge Date: December 2023\\nToday Date: ' -}}"
    "{{- date_string | default('26 Jul 2024') -}}{{- '\\n\\n' -}}"
    "{%- if messages[0].role == 'system' -%}{{- text(messages[0].content) | trim -}}"
    "{%- set messages = messages[1:] -%}{%- endif -%}"
    "{{- '<|eot_id|>' -}}" LLAMA_TURNS;

/* ---- Mistral -------------------------------------------------------------------------------- */

/* The system text is put into the user's turn given by WHERE. */
#define MISTRAL(OPEN, CLOSE, WHERE)                                                                \
    TEXT_MACRO NO_TOOLS                                                                            \
        "{{- bos_token | default('<s>') -}}"                                                       \
        "{%- set system = messages[0].role == 'system' -%}"                                        \
        "{%- for message in (messages[1:] if system else messages) -%}" ALTERNATING                \
        "{%- if message.role == 'user' -%}{{- '" OPEN "' -}}"                                      \
        "{%- if system and " WHERE " -%}{{- text(messages[0].content) + '\\n\\n' -}}{%- endif -%}" \
        "{{- text(message.content) + '" CLOSE "' -}}"                                              \
        "{%- else -%}{{- text(message.content) + (eos_token | default('</s>')) -}}{%- endif -%}"   \
        "{%- endfor -%}"
#define LAST_USER "loop.index0 >= loop.length - 2 + loop.length % 2"
#define MISTRAL_7(SPACE)                                                                           \
    TEXT_MACRO NO_TOOLS                                                                            \
        "{{- bos_token | default('<s>') -}}"                                                       \
        "{%- for message in messages -%}"                                                          \
        "{%- if message.role == 'system' -%}"                                                      \
        "{{- '[SYSTEM_PROMPT]" SPACE "' + text(message.content) + '[/SYSTEM_PROMPT]' -}}"          \
        "{%- elif message.role == 'user' -%}"                                                      \
        "{{- '[INST]" SPACE "' + text(message.content) + '[/INST]" SPACE "' -}}"                   \
        "{%- else -%}{{- text(message.content) + (eos_token | default('</s>')) -}}{%- endif -%}"   \
        "{%- endfor -%}"

static const char mistral_1[] = MISTRAL(" [INST] ", " [/INST] ", "loop.first");
static const char mistral_3[] = MISTRAL("[INST] ", "[/INST] ", LAST_USER);
static const char mistral_3_tekken[] = MISTRAL("[INST]", "[/INST]", LAST_USER);
static const char mistral_7[] = MISTRAL_7(" ");
static const char mistral_7_tekken[] = MISTRAL_7("");

/* ---- Gemma 4 -------------------------------------------------------------------------------- */

/* A value in the format for tools: keys in order, strings between marks, schema types in upper
 * case. */
#define GEMMA4_VALUE                                                                               \
    "{%- macro value(v, schema=false) -%}"                                                         \
    "{%- if v is string -%}<|\"|>{{ v }}<|\"|>"                                                    \
    "{%- elif v is mapping -%}{{ '{' }}{%- for key, item in v | dictsort -%}"                      \
    "{{ ',' if not loop.first }}{{ key }}:"                                                        \
    "{{ value(item | upper if schema and key == 'type' and item is string else item, schema) }}"   \
    "{%- endfor -%}{{ '}' }}"                                                                      \
    "{%- elif v is boolean -%}{{ 'true' if v else 'false' }}"                                      \
    "{%- elif v is sequence -%}[{%- for item in v -%}{{ ',' if not loop.first }}"                  \
    "{{ value(item, schema) }}{%- endfor -%}]"                                                     \
    "{%- else -%}{{ v }}{%- endif -%}{%- endmacro -%}"
#define GEMMA4_SYSTEM                                                                              \
    "{%- set system = messages[0].role in ['system', 'developer'] -%}"                             \
    "{%- if enable_thinking or tools or system -%}{{- '<|turn>system\\n' -}}"                      \
    "{%- if enable_thinking -%}{{- '<|think|>\\n' -}}{%- endif -%}"                                \
    "{%- if system -%}{{- text(messages[0].content) | trim -}}"                                    \
    "{%- set messages = messages[1:] -%}{%- endif -%}"                                             \
    "{%- for tool in tools or [] -%}{%- set f = tool.function or tool -%}"                         \
    "{{- '<|tool>declaration:' + f.name + '{description:' + value(f.description) -}}"              \
    "{%- if f.parameters -%}{{- ',parameters:' + value(f.parameters, true) -}}{%- endif -%}"       \
    "{{- '}<tool|>' -}}{%- endfor -%}{{- '<turn|>\\n' -}}{%- endif -%}"
/* A turn of the model includes its calls and their results. */
#define GEMMA4_TURNS                                                                               \
    "{%- set ns = namespace(open=false, last=-1, text='') -%}"                                     \
    "{%- for message in messages -%}{%- if message.role == 'user' -%}"                             \
    "{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}"                                 \
    "{%- for message in messages -%}{%- set model = message.role == 'assistant' -%}"               \
    "{%- if message.role == 'tool' -%}"                                                            \
    "{{- '<|tool_response>response:' + (message.name or 'unknown') -}}"                            \
    "{{- '{value:' + value(text(message.content)) + '}<tool_response|>' -}}"                       \
    "{%- else -%}"                                                                                 \
    "{%- if ns.open and not model -%}{{- '<turn|>\\n' -}}{%- endif -%}"                            \
    "{%- if not (ns.open and model) -%}"                                                           \
    "{{- '<|turn>' + ('model' if model else message.role) + '\\n' -}}{%- endif -%}"                \
    "{%- set ns.open = false -%}{%- set ns.text = '' -%}"                                          \
    "{%- if model -%}{%- for part in text(message.content).split('<channel|>') -%}"                \
    "{%- set ns.text = ns.text + part.split('<|channel>')[0] -%}{%- endfor -%}"                    \
    "{%- else -%}{%- set ns.text = text(message.content) -%}{%- endif -%}"                         \
    "{%- if message.tool_calls and message.reasoning_content and loop.index0 > ns.last -%}"        \
    "{{- '<|channel>thought\\n' + message.reasoning_content + '\\n<channel|>' -}}{%- endif -%}"    \
    "{%- for call in message.tool_calls or [] -%}"                                                 \
    "{{- '<|tool_call>call:' + call.function.name + value(call.function.arguments) -}}"            \
    "{{- '<tool_call|>' -}}{%- set ns.open = true -%}{%- endfor -%}"                               \
    "{{- ns.text | trim -}}"                                                                       \
    "{%- if not ns.open -%}{{- '<turn|>\\n' -}}{%- endif -%}{%- endif -%}{%- endfor -%}"
#define GEMMA4_PROMPT(OFF)                                                                         \
    "{%- if add_generation_prompt and not ns.open -%}{{- '<|turn>model\\n' -}}" OFF "{%- endif "   \
    "-%}"

static const char gemma4[] = TEXT_MACRO GEMMA4_VALUE
    "{{- bos_token | default('<bos>') -}}" GEMMA4_SYSTEM GEMMA4_TURNS GEMMA4_PROMPT("");
static const char gemma4_large[] = TEXT_MACRO GEMMA4_VALUE
    "{{- bos_token | default('<bos>') -}}" GEMMA4_SYSTEM GEMMA4_TURNS GEMMA4_PROMPT(
        "{%- if not enable_thinking -%}"
        "{{- '<|channel>thought\\n<channel|>' -}}{%- endif -%}");

/* The first entry of a family is the one without a version. */
static const struct {
    const char *model_type, *version, *source;
} formats[] = {
    {"chatml", "1", chatml},
    {"gemma2", "1", gemma},
    {"gemma3", "1", gemma},
    {"gemma3_text", "1", gemma},
    {"gemma4", "small", gemma4},
    {"gemma4", "large", gemma4_large},
    {"gemma4_text", "small", gemma4},
    {"gemma4_text", "large", gemma4_large},
    {"qwen2", "2.5", qwen2_5},
    {"qwen2", "2", qwen2},
    {"qwen3", "1", qwen3},
    {"qwen3_moe", "1", qwen3},
    {"qwen3_next", "1", qwen3},
    {"qwen3_5", "1", qwen3_5},
    {"qwen3_5_text", "1", qwen3_5},
    {"qwen3_5_moe", "1", qwen3_5},
    {"qwen3_5_moe_text", "1", qwen3_5},
    {"llama", "3.1", llama},
    {"llama", "3.0", llama_3_0},
    {"mistral", "v3", mistral_3},
    {"mistral", "v3-tekken", mistral_3_tekken},
    {"mistral", "v1", mistral_1},
    {"mistral", "v7", mistral_7},
    {"mistral", "v7-tekken", mistral_7_tekken},
    {"mixtral", "v1", mistral_1},
    {"ministral", "v3-tekken", mistral_3_tekken},
    {"minicpm", "4", minicpm4},
    {"minicpm", "5", minicpm5},
    {"minicpm", "1", minicpm1},
    {"minicpm5", "5", minicpm5},
};

const char *weft__chat_format(const char *model_type, const char *version)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].model_type, model_type) == 0 &&
            (!version || strcmp(formats[i].version, version) == 0))
            return formats[i].source;
    return NULL;
}
