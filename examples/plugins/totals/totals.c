// Adds `amount` up for each key, to thousandths, and keeps the totals as items of a stream of its own, `totals`.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gen/sink_plugin.h"

#define TEXT(literal) { (uint8_t *)(literal), sizeof(literal) - 1 }

// What is returned is freed by the bindings, so it is copied.
static void copy(sink_plugin_string_t *to, const char *text) {
    sink_plugin_string_dup(to, text);
}

void exports_headgate_sink_sink_describe(exports_headgate_sink_sink_descriptor_t *ret) {
    copy(&ret->name, "totals");
    copy(&ret->version, "0.1.0");
    copy(&ret->config_schema, "");
}

bool exports_headgate_sink_sink_open(sink_plugin_string_t *config, sink_plugin_string_t *err) {
    (void)err;
    sink_plugin_string_free(config);
    return true;
}

// Appends to a text that grows.
static void put(sink_plugin_string_t *out, const void *bytes, size_t len) {
    out->ptr = realloc(out->ptr, out->len + len);
    memcpy(out->ptr + out->len, bytes, len);
    out->len += len;
}

static void put_quoted(sink_plugin_string_t *out, sink_plugin_string_t text) {
    put(out, "\"", 1);
    for (size_t at = 0; at < text.len; at++) {
        uint8_t c = text.ptr[at];
        const char control[] = { '\\', 'u', '0', '0', (char)('0' + c / 16), "0123456789abcdef"[c % 16] };
        if (c < ' ') {
            put(out, control, sizeof control);
            continue;
        }
        if (c == '"' || c == '\\') put(out, "\\", 1);
        put(out, &c, 1);
    }
    put(out, "\"", 1);
}

// Thousandths as a number: -0.050. The standard functions for it would ask for files.
static void put_number(sink_plugin_string_t *out, int64_t thousandths) {
    uint64_t left = thousandths < 0 ? -(uint64_t)thousandths : (uint64_t)thousandths;
    char digits[24];
    size_t len = 0;
    do {
        if (len == 3) digits[sizeof digits - ++len] = '.';
        digits[sizeof digits - ++len] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0 || len < 5);
    if (thousandths < 0) put(out, "-", 1);
    put(out, digits + sizeof digits - len, len);
}

// What `write` has set is read here, and stored when it returns: with the items, or not at all.
static int64_t add(sink_plugin_string_t key, double amount) {
    sink_plugin_list_u8_t stored;
    int64_t total = 0;
    if (headgate_sink_state_get(&key, &stored)) {
        memcpy(&total, stored.ptr, sizeof total);
        sink_plugin_list_u8_free(&stored);
    }
    total += llround(amount * 1000);
    stored = (sink_plugin_list_u8_t){ (uint8_t *)&total, sizeof total };
    headgate_sink_state_set(&key, &stored);
    return total;
}

bool exports_headgate_sink_sink_write(exports_headgate_sink_sink_own_batch_t batch,
                                      exports_headgate_sink_sink_write_error_t *err) {
    headgate_sink_batches_borrow_batch_t items = headgate_sink_batches_borrow_batch(batch);
    headgate_sink_batches_span_t all = { 0, UINT32_MAX };
    sink_plugin_string_t name = TEXT("amount"), stream = TEXT("totals"), lines = { NULL, 0 }, wrong;
    sink_plugin_list_string_t keys;
    sink_plugin_list_f64_t amounts;
    headgate_sink_batches_method_batch_keys(items, &all, &keys);
    headgate_sink_batches_method_batch_numbers(items, &name, &all, &amounts);
    exports_headgate_sink_sink_list_rejection_t rejected = {
        calloc(keys.len, sizeof(exports_headgate_sink_sink_rejection_t)), 0
    };
    for (uint32_t index = 0; index < keys.len; index++) {
        if (isnan(amounts.ptr[index])) {
            rejected.ptr[rejected.len].index = index;
            copy(&rejected.ptr[rejected.len++].reason, "amount is not a number");
            continue;
        }
        put(&lines, "{\"key\": ", 8);
        put_quoted(&lines, keys.ptr[index]);
        put(&lines, ", \"fields\": {\"total\": ", 22);
        put_number(&lines, add(keys.ptr[index], amounts.ptr[index]));
        put(&lines, "}}\n", 3);
    }
    sink_plugin_list_string_free(&keys);
    sink_plugin_list_f64_free(&amounts);
    headgate_sink_batches_batch_drop_own(batch);

    headgate_sink_batches_own_batch_t totals;
    bool made = headgate_sink_batches_make(&stream, &lines, &totals, &wrong);
    free(lines.ptr);
    if (!made) {
        err->tag = EXPORTS_HEADGATE_SINK_SINK_WRITE_ERROR_REJECT;
        err->val.reject = wrong;
    } else {
        headgate_sink_pool_upsert(headgate_sink_batches_borrow_batch(totals));
        headgate_sink_renderers_publish(headgate_sink_batches_borrow_batch(totals));
        headgate_sink_batches_batch_drop_own(totals);
    }
    if (made && rejected.len > 0) {
        err->tag = EXPORTS_HEADGATE_SINK_SINK_WRITE_ERROR_REJECT_ITEMS;
        err->val.reject_items = rejected;
        return false;
    }
    exports_headgate_sink_sink_list_rejection_free(&rejected);
    return made;
}
