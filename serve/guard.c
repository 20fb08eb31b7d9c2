/* serve/guard.c -- who may use the server: API keys, and the Host and Origin of web pages. */
#include <arpa/inet.h>
#include <microhttpd.h>
#include <string.h>
#include <strings.h>

#include "serve/server.h"

/* Compares in a time that depends on the length of `given` only. */
static bool same_key(const char *given, const char *key)
{
    const size_t n = strlen(given), m = strlen(key);
    unsigned char differ = n != m;
    for (size_t i = 0; i < n; i++)
        differ |= (unsigned char)(given[i] ^ key[m > 0 ? i % m : 0]);
    return differ == 0;
}

static bool has_key(const serve_options *o, struct MHD_Connection *connection)
{
    const char *given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Authorization");
    bool found = false;
    if (given != NULL && strncasecmp(given, "Bearer ", 7) == 0)
        given += 7;
    else
        given = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "x-api-key");
    for (size_t i = 0; given != NULL && i < o->n_keys; i++)
        found |= same_key(given, o->keys[i]);
    return found;
}

/* The length of the name in NAME or NAME:PORT; in brackets for an IPv6 address. */
static size_t name_length(const char *host)
{
    const char *end = host[0] == '[' ? strchr(host, ']') : NULL;
    return end != NULL ? (size_t)(end + 1 - host) : strcspn(host, ":");
}

/* A page of another site can reach a local server by a name of its own that it lets point there,
 * but not by an address. */
static bool is_known_host(const serve_options *o, const char *host)
{
    const size_t n = name_length(host);
    char name[256];
    unsigned char address[16];
    if (n == 0 || n >= sizeof name)
        return false;
    memcpy(name, host, n);
    name[n] = '\0';
    bool known = strcasecmp(name, "localhost") == 0 || inet_pton(AF_INET, name, address) == 1;
    if (name[0] == '[' && name[n - 1] == ']') {
        name[n - 1] = '\0';
        known = known || inet_pton(AF_INET6, name + 1, address) == 1;
        name[n - 1] = ']';
    }
    for (size_t i = 0; i < o->n_hosts; i++)
        known = known || strcasecmp(name, o->hosts[i]) == 0;
    return known;
}

static bool is_allowed_origin(const serve_options *o, const char *origin)
{
    bool allowed = false;
    for (size_t i = 0; i < o->n_origins; i++)
        allowed = allowed || strcasecmp(origin, o->origins[i]) == 0;
    return allowed;
}

/* Whether a page of this origin came from this server itself. */
static bool is_same_site(const char *origin, const char *host)
{
    const char *at = strstr(origin, "://");
    return at != NULL && host != NULL && strcasecmp(at + 3, host) == 0;
}

const char *serve_guard_origin(const serve_server *server, struct MHD_Connection *connection)
{
    const char *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
    return origin != NULL && is_allowed_origin(&server->options, origin) ? origin : NULL;
}

serve_error serve_guard(const serve_server *server, struct MHD_Connection *connection,
                        bool needs_key)
{
    const serve_options *o = &server->options;
    const char *host = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Host");
    const char *origin = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, "Origin");
    if (host != NULL && !is_known_host(o, host))
        return serve_error_make(403,
                                "Host \"%s\" is not allowed: start the server with "
                                "--allow-host for it",
                                weft_printable(host));
    if (origin != NULL && !is_allowed_origin(o, origin) && !is_same_site(origin, host))
        return serve_error_make(403,
                                "origin \"%s\" is not allowed: start the server with "
                                "--allow-origin for it",
                                weft_printable(origin));
    if (needs_key && o->n_keys > 0 && !has_key(o, connection))
        return serve_error_make(401, "expected an API key of this server: Authorization: Bearer "
                                     "KEY, or x-api-key: KEY");
    return (serve_error){0};
}
