// Texts of berth-cni.c, with a length instead of a final zero; buffers of a fixed size; and as much of JSON as finds the fields of an
// object. The agent parses in full what it gets.
#pragma once

#include "linux.h"

struct text {
  const char *at;
  size_t length;
};

struct buffer {
  char *at;
  size_t length;
  size_t size;
  bool is_full;
};

#define TEXT(literal) ((struct text){literal, sizeof(literal) - 1})
#define BUFFER(array) ((struct buffer){array, 0, sizeof(array), false})

static bool equals(struct text one, struct text other) {
  if (one.length != other.length) return false;
  for (size_t at = 0; at < one.length; at++)
    if (one.at[at] != other.at[at]) return false;
  return true;
}

static bool contains(struct text text, char wanted) {
  for (size_t at = 0; at < text.length; at++)
    if (text.at[at] == wanted) return true;
  return false;
}

// Sets `is_full` and appends nothing if the text does not fit.
static void append(struct buffer *to, struct text text) {
  if (text.length > to->size - to->length) {
    to->is_full = true;
    return;
  }
  memcpy(to->at + to->length, text.at, text.length);
  to->length += text.length;
}

static void append_number(struct buffer *to, unsigned long number) {
  char digits[20];
  size_t at = sizeof digits;
  do {
    digits[--at] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  append(to, (struct text){digits + at, sizeof digits - at});
}

// The number of a text of up to 15 digits; -1 for any other.
static long number_of(struct text text) {
  if (text.length == 0 || text.length > 15) return -1;
  long number = 0;
  for (size_t at = 0; at < text.length; at++) {
    if (text.at[at] < '0' || text.at[at] > '9') return -1;
    number = number * 10 + (text.at[at] - '0');
  }
  return number;
}

// Whether a text, in upper or lower case, starts with `lowercase`.
static bool starts_with(struct text text, struct text lowercase) {
  if (text.length < lowercase.length) return false;
  for (size_t at = 0; at < lowercase.length; at++) {
    char found = text.at[at];
    if (found >= 'A' && found <= 'Z') found = (char)(found - 'A' + 'a');
    if (found != lowercase.at[at]) return false;
  }
  return true;
}

static const char *skip_space(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
  return at;
}

// The end of the string at `at`, or NULL if there is none.
static const char *skip_string(const char *at, const char *end) {
  if (at == end || *at != '"') return NULL;
  for (at++; at < end; at++) {
    if (*at == '"') return at + 1;
    if (*at == '\\') at++;
  }
  return NULL;
}

// The end of the value at `at`: a string, a pair of brackets with its content, or a word. NULL if there is none.
static const char *skip_value(const char *at, const char *end) {
  size_t depth = 0;
  const char *start = at;
  while (at < end) {
    if (*at == '"') {
      at = skip_string(at, end);
      if (at == NULL || depth == 0) return at;
      continue;
    }
    if (*at == '{' || *at == '[') depth++;
    else if (*at == '}' || *at == ']') {
      if (depth == 0) break;
      if (--depth == 0) return at + 1;
    } else if (depth == 0 && (*at == ',' || skip_space(at, end) > at)) break;
    at++;
  }
  return depth == 0 && at > start ? at : NULL;
}

struct field {
  // With its quotes.
  struct text name;
  struct text *value;
};

// Finds fields of a JSON object; the value of a missing field stays as it is. Returns false if the text is no object, or if a name has an
// escape.
static bool find_fields(struct text json, const struct field *fields, size_t count) {
  const char *end = json.at + json.length;
  const char *at = skip_space(json.at, end);
  if (at == end || *at != '{') return false;
  at = skip_space(at + 1, end);
  if (at < end && *at == '}') return skip_space(at + 1, end) == end;
  for (;;) {
    const char *name = skip_space(at, end);
    at = skip_string(name, end);
    if (at == NULL) return false;
    struct text found = {name, (size_t)(at - name)};
    if (contains(found, '\\')) return false;
    at = skip_space(at, end);
    if (at == end || *at != ':') return false;
    const char *value = skip_space(at + 1, end);
    at = skip_value(value, end);
    if (at == NULL) return false;
    for (size_t each = 0; each < count; each++)
      if (equals(found, fields[each].name)) *fields[each].value = (struct text){value, (size_t)(at - value)};
    at = skip_space(at, end);
    if (at == end) return false;
    if (*at == '}') return skip_space(at + 1, end) == end;
    if (*at++ != ',') return false;
  }
}

// Whether a text can stand in a JSON string as it is.
static bool is_plain(struct text text) {
  for (size_t at = 0; at < text.length; at++)
    if (text.at[at] < ' ' || text.at[at] > '~' || text.at[at] == '"' || text.at[at] == '\\') return false;
  return true;
}
