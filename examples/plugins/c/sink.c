// Keeps items whose `value` is at least `least`, without their field `secret`.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gen/sink_plugin.h"

#define TEXT(literal) { (uint8_t *)(literal), sizeof(literal) - 1 }

static const char CONFIG_SCHEMA[] =
    "{\"type\": \"object\", \"properties\": {\"least\": {\"type\": \"number\"}},"
    " \"required\": [\"least\"], \"additionalProperties\": false}";

static double least;

// What is returned is freed by the bindings, so it is copied.
static void copy(sink_plugin_string_t *to, const char *text) {
    sink_plugin_string_dup(to, text);
}

void exports_headgate_sink_sink_describe(exports_headgate_sink_sink_descriptor_t *ret) {
    copy(&ret->name, "threshold");
    copy(&ret->version, "0.1.0");
    copy(&ret->config_schema, CONFIG_SCHEMA);
}

bool exports_headgate_sink_sink_open(sink_plugin_string_t *config, sink_plugin_string_t *err) {
    (void)err;
    // It fits the schema: {"least":10}
    const uint8_t *colon = memchr(config->ptr, ':', config->len);
    char number[32] = { 0 };
    size_t length = (size_t)(config->ptr + config->len - colon) - 1;
    memcpy(number, colon + 1, length < sizeof number ? length : sizeof number - 1);
    least = strtod(number, NULL);
    sink_plugin_string_free(config);
    return true;
}

bool exports_headgate_sink_sink_write(exports_headgate_sink_sink_own_batch_t batch,
                                      exports_headgate_sink_sink_write_error_t *err) {
    headgate_sink_batches_borrow_batch_t items = headgate_sink_batches_borrow_batch(batch);
    headgate_sink_batches_span_t all = { 0, UINT32_MAX };
    sink_plugin_string_t value = TEXT("value"), secret = TEXT("secret"), name = TEXT("kept");
    sink_plugin_list_f64_t values;
    headgate_sink_batches_method_batch_numbers(items, &value, &all, &values);

    sink_plugin_list_u32_t keep = { calloc(values.len, sizeof(uint32_t)), 0 };
    exports_headgate_sink_sink_list_rejection_t rejected = {
        calloc(values.len, sizeof(exports_headgate_sink_sink_rejection_t)), 0
    };
    for (uint32_t index = 0; index < values.len; index++) {
        if (isnan(values.ptr[index])) {
            rejected.ptr[rejected.len].index = index;
            copy(&rejected.ptr[rejected.len++].reason, "value is not a number");
        } else if (values.ptr[index] >= least) {
            keep.ptr[keep.len++] = index;
        }
    }

    sink_plugin_list_string_t without = { &secret, 1 };
    headgate_sink_batches_own_batch_t selected =
        headgate_sink_batches_method_batch_select(items, &keep);
    headgate_sink_batches_own_batch_t kept = headgate_sink_batches_method_batch_without(
        headgate_sink_batches_borrow_batch(selected), &without);
    headgate_sink_pool_upsert(headgate_sink_batches_borrow_batch(kept));
    headgate_sink_renderers_publish(headgate_sink_batches_borrow_batch(kept));
    headgate_sink_metrics_count(&name, keep.len);

    headgate_sink_batches_batch_drop_own(kept);
    headgate_sink_batches_batch_drop_own(selected);
    headgate_sink_batches_batch_drop_own(batch);
    sink_plugin_list_f64_free(&values);
    free(keep.ptr);
    if (rejected.len == 0) {
        free(rejected.ptr);
        return true;
    }
    err->tag = EXPORTS_HEADGATE_SINK_SINK_WRITE_ERROR_REJECT_ITEMS;
    err->val.reject_items = rejected;
    return false;
}
