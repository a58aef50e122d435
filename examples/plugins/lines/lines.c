// Writes a batch in InfluxDB's line protocol, with one request: `orders,key=a value=12.50 1700000000000`.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gen/sink_plugin.h"

#define TEXT(literal) { (uint8_t *)(literal), sizeof(literal) - 1 }

static const char CONFIG_SCHEMA[] =
    "{\"type\": \"object\", \"properties\": {\"url\": {\"type\": \"string\"}},"
    " \"required\": [\"url\"], \"additionalProperties\": false}";

static sink_plugin_string_t url;

// What is returned is freed by the bindings, so it is copied.
static void copy(sink_plugin_string_t *to, const char *text) {
    sink_plugin_string_dup(to, text);
}

void exports_headgate_sink_sink_describe(exports_headgate_sink_sink_descriptor_t *ret) {
    copy(&ret->name, "lines");
    copy(&ret->version, "0.1.0");
    copy(&ret->config_schema, CONFIG_SCHEMA);
}

bool exports_headgate_sink_sink_open(sink_plugin_string_t *config, sink_plugin_string_t *err) {
    (void)err;
    // It fits the schema: {"url":"http://..."}, and no URL has a quote in it.
    const size_t before = strlen("{\"url\":\""), after = strlen("\"}");
    url.ptr = config->ptr + before;
    url.len = config->len - before - after;
    return true;
}

// Appends to a text that grows.
static void put(sink_plugin_list_u8_t *out, const void *bytes, size_t len) {
    out->ptr = realloc(out->ptr, out->len + len);
    memcpy(out->ptr + out->len, bytes, len);
    out->len += len;
}

// The standard functions for it would ask for files.
static void put_number(sink_plugin_list_u8_t *out, uint64_t number) {
    char digits[20];
    size_t len = 0;
    do digits[sizeof digits - ++len] = (char)('0' + number % 10);
    while (number /= 10);
    put(out, digits + sizeof digits - len, len);
}

// What stands between commas and spaces.
static void put_escaped(sink_plugin_list_u8_t *out, sink_plugin_string_t text) {
    for (size_t at = 0; at < text.len; at++) {
        if (memchr(",= ", text.ptr[at], 3)) put(out, "\\", 1);
        put(out, text.ptr + at, 1);
    }
}

// A line for each item with a number; the others are rejected.
static sink_plugin_list_u8_t lines_of(headgate_sink_batches_borrow_batch_t items,
                                      exports_headgate_sink_sink_list_rejection_t *rejected) {
    headgate_sink_batches_span_t all = { 0, UINT32_MAX };
    sink_plugin_string_t name = TEXT("value");
    sink_plugin_list_string_t streams, keys;
    sink_plugin_list_u64_t times;
    sink_plugin_list_option_string_t values;
    sink_plugin_list_f64_t numbers;
    headgate_sink_batches_method_batch_streams(items, &all, &streams);
    headgate_sink_batches_method_batch_keys(items, &all, &keys);
    headgate_sink_batches_method_batch_times(items, &all, &times);
    // Digits as they were sent, and whether they are a number.
    headgate_sink_batches_method_batch_texts(items, &name, &all, &values);
    headgate_sink_batches_method_batch_numbers(items, &name, &all, &numbers);

    rejected->ptr = calloc(keys.len, sizeof(exports_headgate_sink_sink_rejection_t));
    rejected->len = 0;
    sink_plugin_list_u8_t lines = { NULL, 0 };
    for (uint32_t index = 0; index < keys.len; index++) {
        if (isnan(numbers.ptr[index])) {
            rejected->ptr[rejected->len].index = index;
            copy(&rejected->ptr[rejected->len++].reason, "value is not a number");
            continue;
        }
        sink_plugin_string_t value = values.ptr[index].val;
        put_escaped(&lines, streams.ptr[index]);
        put(&lines, ",key=", 5);
        put_escaped(&lines, keys.ptr[index]);
        put(&lines, " value=", 7);
        put(&lines, value.ptr, value.len);
        put(&lines, " ", 1);
        put_number(&lines, times.ptr[index]);
        put(&lines, "\n", 1);
    }
    sink_plugin_list_string_free(&streams);
    sink_plugin_list_string_free(&keys);
    sink_plugin_list_u64_free(&times);
    sink_plugin_list_option_string_free(&values);
    sink_plugin_list_f64_free(&numbers);
    return lines;
}

static sink_plugin_string_t answered(uint16_t status) {
    sink_plugin_list_u8_t words = { NULL, 0 };
    put(&words, "the database answered ", 22);
    put_number(&words, status);
    return (sink_plugin_string_t){ words.ptr, words.len };
}

// Sends them. False: they are not taken, and `err` says what is to become of them.
static bool post(sink_plugin_list_u8_t lines, exports_headgate_sink_sink_write_error_t *err) {
    sink_plugin_tuple2_string_string_t header = { TEXT("content-type"), TEXT("text/plain; charset=utf-8") };
    headgate_sink_http_request_t request = {
        .method = TEXT("POST"), .url = url, .headers = { &header, 1 }, .body = lines,
    };
    headgate_sink_http_response_t answer = { 0 };
    sink_plugin_string_t reason;
    if (headgate_sink_http_send(&request, &answer, &reason)) {
        headgate_sink_http_response_free(&answer);
        if (answer.status < 300) return true;
        reason = answered(answer.status);
    }
    if (answer.status == 0 || answer.status == 429 || answer.status >= 500) {
        err->tag = EXPORTS_HEADGATE_SINK_SINK_WRITE_ERROR_RETRY;
        err->val.retry.after_ms.is_some = false;
        err->val.retry.reason = reason;
    } else {
        err->tag = EXPORTS_HEADGATE_SINK_SINK_WRITE_ERROR_REJECT;
        err->val.reject = reason;
    }
    return false;
}

bool exports_headgate_sink_sink_write(exports_headgate_sink_sink_own_batch_t batch,
                                      exports_headgate_sink_sink_write_error_t *err) {
    exports_headgate_sink_sink_list_rejection_t rejected;
    sink_plugin_list_u8_t lines = lines_of(headgate_sink_batches_borrow_batch(batch), &rejected);
    headgate_sink_batches_batch_drop_own(batch);
    bool taken = lines.len == 0 || post(lines, err);
    free(lines.ptr);
    if (taken && rejected.len > 0) {
        err->tag = EXPORTS_HEADGATE_SINK_SINK_WRITE_ERROR_REJECT_ITEMS;
        err->val.reject_items = rejected;
        return false;
    }
    exports_headgate_sink_sink_list_rejection_free(&rejected);
    return taken;
}
