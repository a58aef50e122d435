// Tells a chat of each item: `{"text": "Anna: 120"}`, of its fields `customer` and `total`. Waits as long as it asks.
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
    copy(&ret->name, "chat");
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

// A field as part of a JSON text: what is between the quotes of a string, or a number as it is.
static void put_field(sink_plugin_list_u8_t *out, headgate_sink_batches_borrow_batch_t items, uint32_t index,
                      sink_plugin_string_t name) {
    sink_plugin_string_t field;
    if (!headgate_sink_batches_method_batch_field(items, index, &name, &field)) {
        put(out, "?", 1);
        return;
    }
    bool is_text = field.ptr[0] == '"';
    put(out, field.ptr + is_text, field.len - 2 * is_text);
    sink_plugin_string_free(&field);
}

// The JSON text for an item.
static sink_plugin_list_u8_t message(headgate_sink_batches_borrow_batch_t items, uint32_t index) {
    sink_plugin_list_u8_t text = { NULL, 0 };
    put(&text, "{\"text\": \"", 10);
    put_field(&text, items, index, (sink_plugin_string_t)TEXT("customer"));
    put(&text, ": ", 2);
    put_field(&text, items, index, (sink_plugin_string_t)TEXT("total"));
    put(&text, "\"}", 2);
    return text;
}

static sink_plugin_string_t answered(uint16_t status) {
    sink_plugin_list_u8_t words = { NULL, 0 };
    put(&words, "the chat answered ", 18);
    put_number(&words, status);
    return (sink_plugin_string_t){ words.ptr, words.len };
}

// The seconds of `Retry-After`, 0 without it.
static uint64_t seconds_to_wait(const headgate_sink_http_response_t *answer) {
    for (size_t index = 0; index < answer->headers.len; index++) {
        sink_plugin_string_t name = answer->headers.ptr[index].f0, value = answer->headers.ptr[index].f1;
        char digits[16] = { 0 };
        if (name.len == 11 && memcmp(name.ptr, "retry-after", 11) == 0 && value.len < sizeof digits)
            return strtoull(memcpy(digits, value.ptr, value.len), NULL, 10);
    }
    return 0;
}

bool exports_headgate_sink_sink_write(exports_headgate_sink_sink_own_batch_t batch,
                                      exports_headgate_sink_sink_write_error_t *err) {
    headgate_sink_batches_borrow_batch_t items = headgate_sink_batches_borrow_batch(batch);
    uint32_t count = headgate_sink_batches_method_batch_len(items);
    exports_headgate_sink_sink_list_rejection_t rejected = {
        calloc(count, sizeof(exports_headgate_sink_sink_rejection_t)), 0
    };
    sink_plugin_tuple2_string_string_t header = { TEXT("content-type"), TEXT("application/json") };
    bool goes_on = true;
    for (uint32_t index = 0; goes_on && index < count; index++) {
        headgate_sink_batches_span_t item = { index, 1 };
        // If a later item fails, those before it are not told again.
        headgate_sink_delivery_taken(index);
        headgate_sink_delivery_carries(items, &item);
        headgate_sink_http_request_t request = {
            .method = TEXT("POST"), .url = url, .headers = { &header, 1 }, .body = message(items, index),
        };
        headgate_sink_http_response_t answer;
        sink_plugin_string_t reason;
        uint64_t wait = 0;
        uint16_t status = 0;
        if (headgate_sink_http_send(&request, &answer, &reason)) {
            status = answer.status;
            wait = seconds_to_wait(&answer);
            headgate_sink_http_response_free(&answer);
            reason = answered(status);
        }
        free(request.body.ptr);
        if (status == 0 || status == 429 || status >= 500) {
            err->tag = EXPORTS_HEADGATE_SINK_SINK_WRITE_ERROR_RETRY;
            err->val.retry.after_ms = (sink_plugin_option_u64_t){ wait > 0, wait * 1000 };
            err->val.retry.reason = reason;
            goes_on = false;
        } else if (status >= 300) {
            headgate_sink_delivery_refused(&item, &reason);
            rejected.ptr[rejected.len].index = index;
            rejected.ptr[rejected.len++].reason = reason;
        } else {
            sink_plugin_string_free(&reason);
        }
    }
    headgate_sink_batches_batch_drop_own(batch);
    if (goes_on && rejected.len > 0) {
        err->tag = EXPORTS_HEADGATE_SINK_SINK_WRITE_ERROR_REJECT_ITEMS;
        err->val.reject_items = rejected;
        return false;
    }
    exports_headgate_sink_sink_list_rejection_free(&rejected);
    return goes_on;
}
