/* cli/train_devices.c -- the devices over which the layers of a trained model are spread. */
#include "cli/train.h"

int train_devices(const train_values *v, train_device out[WEFT_MODEL_DEVICES])
{
    weft_device *devices[WEFT_MODEL_DEVICES];
    const int n = cli_has_several_devices(&v->place) ? cli_devices(&v->place, devices) : 0;
    for (int i = 0; i < n; i++)
        out[i] = (train_device){weft_device_name(devices[i]), weft_device_peak(devices[i]),
                                weft_device_memory(devices[i])};
    return n;
}

int train_batches_at_a_time(const train_values *v, int64_t accumulate)
{
    train_device devices[WEFT_MODEL_DEVICES];
    const int n = train_devices(v, devices), most = n > 1 ? n + 1 : 2;
    return (int)(accumulate < most ? accumulate : most);
}

void train_print_devices(const train_device *devices, int n, bool json)
{
    if (json)
        fputs("\"devices\": [", stdout);
    for (int i = 0; i < n; i++) {
        const train_device *at = &devices[i];
        if (json)
            printf("%s{\"name\": \"%s\", \"peak_memory\": %lld, \"limit\": %lld}",
                   i > 0 ? ", " : "", at->name, (long long)at->peak, (long long)at->memory);
        else
            printf("             %s %s%s%s\n", at->name, cli_bytes(at->peak),
                   at->memory > 0 ? " of " : "", at->memory > 0 ? cli_bytes(at->memory) : "");
    }
    if (json)
        fputs("], ", stdout);
}

int64_t train_memory(const train_values *v)
{
    if (!isnan(v->max_memory))
        return (int64_t)(v->max_memory * 1e9);
    train_device devices[WEFT_MODEL_DEVICES];
    const int n = train_devices(v, devices);
    int64_t device =
        n > 0 ? 0 : weft_device_memory(weft_default_device()) / train_device_sharers(v);
    const int64_t limit = weft_memory_limit();
    for (int i = 0; i < n; i++)
        device += devices[i].memory;
    return device == 0 && limit == INT64_MAX ? 0 : device == 0 || limit < device ? limit : device;
}
