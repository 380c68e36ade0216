// The static form of the CNI plugin `berth-cni`. A container runtime starts it for each call; it hands ADD, DEL and CHECK over to the
// agent, as run-delegate.ts does, and prints the agent's answer. A call takes 0.14 ms of CPU; through the link to Berth it takes 8.5 ms.
//
//   ADD, DEL, CHECK ──► the agent answers ──► its result or its error object
//                   ──► the agent is away, or this file does not know the input ──► berth-cni.program with the same input
//   another verb    ──► berth-cni.program
//
// berth-cni.program is a link to Berth, which `berth cni install` makes beside this program. The link decides what is executed, and the
// configuration of the call which agent is asked; no variable of the environment does. This program allocates nothing: each buffer has a
// limit, and a longer input goes to Berth.

#include "linux.h"
#include "text.h"

// As MAX_CONF_BYTES of run-delegate.ts.
#define MAX_INPUT (1 << 20)
// As MAX_REQUEST_BYTES of delegate-call.ts.
#define MAX_REQUEST (2 << 20)
#define MAX_ANSWER (4 << 20)
// The head of the agent's answer has some hundred bytes.
#define MAX_HEAD (64 << 10)

static const char *const *environment;
static struct text verb;

// The configuration on standard input.
static char input[MAX_INPUT + 1];
static size_t input_length;
static bool is_input_read;

// The fields of the configuration that this program reads, as JSON.
static struct text socket_path;
static struct text timeout_ms;
static struct text runtime_config;
static long deadline_ms;

// A variable of the environment; empty if it is missing.
static struct text variable(struct text name) {
  for (const char *const *each = environment; *each != NULL; each++) {
    size_t at = 0;
    while (at < name.length && (*each)[at] == name.at[at]) at++;
    if (at < name.length || (*each)[at] != '=') continue;
    struct text value = {*each + at + 1, 0};
    while (value.at[value.length] != '\0') value.length++;
    return value;
  }
  return TEXT("");
}

static long now_ms(void) {
  struct kernel_time now = {0, 0};
  sys_clock(&now);
  return now.seconds * 1000 + now.fraction / 1000000;
}

static bool write_all(int file, const char *from, size_t size) {
  while (size > 0) {
    long written = sys_write(file, from, size);
    if (written == -EINTR) continue;
    if (written <= 0) return false;
    from += written;
    size -= (size_t)written;
  }
  return true;
}

// Ends with the error object of the specification, section 5. No part of the message needs an escape of JSON.
__attribute__((noreturn)) static void fail(unsigned code, const struct text *message, size_t parts) {
  static char line[8192];
  struct buffer to = BUFFER(line);
  append(&to, TEXT("{\"cniVersion\":\"1.0.0\",\"code\":"));
  append_number(&to, code);
  append(&to, TEXT(",\"msg\":\""));
  for (size_t part = 0; part < parts; part++) append(&to, message[part]);
  append(&to, TEXT("\"}\n"));
  write_all(1, to.at, to.length);
  sys_exit(1);
}

#define FAIL(code, ...) \
  fail(code, (const struct text[]){__VA_ARGS__}, sizeof((const struct text[]){__VA_ARGS__}) / sizeof(struct text))

__attribute__((noreturn)) static void fail_by_timeout(void) {
  FAIL(11, TEXT("the agent on "), socket_path, TEXT(", which may be stopped, has not answered "), verb, TEXT(" within "),
       timeout_ms, TEXT(" ms"));
}

static long time_left_ms(void) {
  long left = deadline_ms - now_ms();
  if (left <= 0) fail_by_timeout();
  return left;
}

// Makes standard input readable from its start again, for the program that is executed.
static bool give_input_back(void) {
  long file = sys_memfd("berth-cni");
  return file >= 0 && write_all((int)file, input, input_length) && sys_rewind((int)file) == 0 &&
         sys_duplicate((int)file, 0) == 0;
}

// Executes Berth in place of this program, with the same environment and input, and with the time that is left of the call.
__attribute__((noreturn)) static void execute_berth(void) {
  static char path[4096 + 32];
  static char time_left[64];
  struct buffer to = BUFFER(time_left);
  if (deadline_ms != 0) {
    append(&to, TEXT("--time-left-ms="));
    append_number(&to, (unsigned long)time_left_ms());
  }
  const char *arguments[] = {"berth-cni", deadline_ms == 0 ? NULL : time_left, NULL};
  long folder = sys_read_link("/proc/self/exe", path, 4096);
  while (folder > 0 && path[folder - 1] != '/') folder--;
  if (folder > 0 && (!is_input_read || give_input_back())) {
    struct buffer whole = {path, (size_t)folder, sizeof path, false};
    append(&whole, (struct text){"berth-cni.program", sizeof "berth-cni.program"});
    sys_execute(path, arguments, environment);
  }
  FAIL(5, TEXT("cannot execute berth-cni.program beside berth-cni; berth cni install links it"));
}

// The agent has the call, and its answer is lost: it has ended, or has sent no answer of CNI. The runtime calls DEL after an ADD that
// has failed.
__attribute__((noreturn)) static void lose_answer(struct text reason) {
  if (!equals(verb, TEXT("ADD"))) execute_berth();
  FAIL(11, TEXT("the agent on "), socket_path, TEXT(" has ended during ADD ("), reason,
       TEXT("); DEL and another ADD may follow"));
}

// Reads standard input, up to one byte more than a configuration may have.
static void read_input(void) {
  is_input_read = true;
  while (input_length < sizeof input) {
    long count = sys_read(0, input + input_length, sizeof input - input_length);
    if (count == -EINTR) continue;
    if (count < 0) FAIL(5, TEXT("cannot read the configuration on standard input"));
    if (count == 0) break;
    input_length += (size_t)count;
  }
}

// Whether a value is a string with an absolute path.
static bool is_path(struct text value) { return value.length >= 3 && value.at[0] == '"' && value.at[1] == '/'; }

// Whether a value is a list of at least one absolute path.
static bool is_path_list(struct text value) {
  const char *end = value.at + value.length;
  if (value.length == 0 || value.at[0] != '[') return false;
  for (const char *at = value.at;;) {
    const char *path = skip_space(at + 1, end);
    at = skip_string(path, end);
    if (at == NULL || !is_path((struct text){path, (size_t)(at - path)})) return false;
    at = skip_space(at, end);
    if (at == end) return false;
    if (*at == ']') return at + 1 == end;
    if (*at != ',') return false;
  }
}

// Reads the fields of the configuration. Returns whether this program can hand the call over to an agent. The configuration must be one that
// Berth accepts: when the agent is away, Berth executes the call and needs the folders.
static bool read_conf(void) {
  struct text version = TEXT("");
  struct text quoted = TEXT("");
  struct text conf_dir = TEXT("");
  struct text bin_dirs = TEXT("");
  struct text cache_dir = TEXT("");
  const struct field fields[] = {
      {TEXT("\"cniVersion\""), &version},
      {TEXT("\"socket\""), &quoted},
      {TEXT("\"confDir\""), &conf_dir},
      {TEXT("\"binDirs\""), &bin_dirs},
      {TEXT("\"cacheDir\""), &cache_dir},
      {TEXT("\"timeoutMs\""), &timeout_ms},
      {TEXT("\"runtimeConfig\""), &runtime_config},
  };
  runtime_config = TEXT("{}");
  if (input_length > MAX_INPUT) return false;
  if (!find_fields((struct text){input, input_length}, fields, sizeof fields / sizeof *fields)) return false;
  long timeout = number_of(timeout_ms);
  if (!equals(version, TEXT("\"1.0.0\"")) || timeout <= 0 || runtime_config.at[0] != '{') return false;
  if (!is_path(quoted) || !is_path(conf_dir) || !is_path_list(bin_dirs) || !is_path(cache_dir)) return false;
  socket_path = (struct text){quoted.at + 1, quoted.length - 2};
  if (!is_plain(socket_path) || socket_path.length >= sizeof((struct unix_address *)0)->path) return false;
  deadline_ms = now_ms() + timeout;
  return true;
}

// Appends a field with a string. Returns false for a value that needs an escape of JSON.
static bool append_string(struct buffer *to, struct text name, struct text value) {
  append(to, name);
  append(to, TEXT(":\""));
  append(to, value);
  append(to, TEXT("\","));
  return is_plain(value);
}

// Appends CNI_ARGS, KEY=VALUE;KEY=VALUE, as pairs. Returns false for any other form.
static bool append_pairs(struct buffer *to, struct text args) {
  const char *end = args.at + args.length;
  bool is_first = true;
  for (const char *at = args.at; at < end;) {
    struct text pair = {at, 0};
    while (at < end && *at != ';') at++;
    pair.length = (size_t)(at - pair.at);
    if (at < end) at++;
    if (pair.length == 0) continue;
    size_t key = 0;
    while (key < pair.length && pair.at[key] != '=') key++;
    if (key == pair.length) return false;
    struct text value = {pair.at + key + 1, pair.length - key - 1};
    if (contains(value, '=')) return false;
    append(to, is_first ? TEXT("[\"") : TEXT(",[\""));
    append(to, (struct text){pair.at, key});
    append(to, TEXT("\",\""));
    append(to, value);
    append(to, TEXT("\"]"));
    is_first = false;
  }
  return is_plain(args);
}

// Appends the body of a request, as decodeDelegateCall of delegate-call.ts reads it. Returns false for a call that it cannot express.
static bool append_call(struct buffer *to) {
  append(to, TEXT("{"));
  bool is_valid = append_string(to, TEXT("\"verb\""), verb) &&
                  append_string(to, TEXT("\"containerId\""), variable(TEXT("CNI_CONTAINERID"))) &&
                  append_string(to, TEXT("\"netns\""), variable(TEXT("CNI_NETNS"))) &&
                  append_string(to, TEXT("\"ifName\""), variable(TEXT("CNI_IFNAME")));
  append(to, TEXT("\"args\":["));
  is_valid = is_valid && append_pairs(to, variable(TEXT("CNI_ARGS")));
  append(to, TEXT("],\"timeLeftMs\":"));
  append_number(to, (unsigned long)time_left_ms());
  append(to, TEXT(",\"capabilityArgs\":"));
  append(to, runtime_config);
  append(to, TEXT("}"));
  return is_valid && !to->is_full;
}

// Lets the next call on the socket last no longer than the time that is left of the call.
static void limit_time(int socket, int option) {
  long left = time_left_ms();
  struct kernel_time timeout = {left / 1000, left % 1000 * 1000};
  sys_set_timeout(socket, option, &timeout);
}

// A connection to the agent. Executes Berth if there is no agent.
static int connect_to_agent(void) {
  long socket = sys_unix_socket();
  if (socket < 0) execute_berth();
  struct unix_address address = {.family = AF_UNIX};
  memcpy(address.path, socket_path.at, socket_path.length);
  long result;
  do {
    // A stopped agent accepts no connections; connect(2) waits while its queue of them is full.
    limit_time((int)socket, SO_SNDTIMEO);
    result = sys_connect((int)socket, &address);
  } while (result == -EINTR);
  if (result == -EAGAIN) fail_by_timeout();
  if (result < 0) execute_berth();
  return (int)socket;
}

static void send_all(int socket, struct text text) {
  while (text.length > 0) {
    limit_time(socket, SO_SNDTIMEO);
    long sent = sys_send(socket, text.at, text.length);
    if (sent == -EINTR || sent == -EAGAIN) continue;
    if (sent <= 0) lose_answer(TEXT("it has closed the connection before it had the call"));
    text.at += sent;
    text.length -= (size_t)sent;
  }
}

// Reads more of the answer. Returns false at its end.
static bool receive(int socket, struct buffer *to) {
  for (;;) {
    if (to->length == to->size) lose_answer(TEXT("its answer is too long"));
    limit_time(socket, SO_RCVTIMEO);
    long count = sys_read(socket, to->at + to->length, to->size - to->length);
    if (count == -EINTR || count == -EAGAIN) continue;
    if (count <= 0) return false;
    to->length += (size_t)count;
    return true;
  }
}

// The length of a head with the empty line after it; 0 if its end is missing.
static size_t head_length(struct text answer) {
  for (size_t at = 0; at + 4 <= answer.length; at++)
    if (equals((struct text){answer.at + at, 4}, TEXT("\r\n\r\n"))) return at + 4;
  return 0;
}

// The value of content-length in a head; -1 if it is missing or no number.
static long content_length(struct text head) {
  struct text name = TEXT("\r\ncontent-length:");
  for (size_t at = 0; at < head.length; at++) {
    if (!starts_with((struct text){head.at + at, head.length - at}, name)) continue;
    const char *value = skip_space(head.at + at + name.length, head.at + head.length);
    struct text digits = {value, 0};
    while (value + digits.length < head.at + head.length && value[digits.length] != '\r') digits.length++;
    return number_of(digits);
  }
  return -1;
}

// Reads the answer and returns its body; `status` is that of HTTP.
static struct text read_answer(int socket, long *status) {
  static char bytes[MAX_ANSWER];
  struct buffer to = BUFFER(bytes);
  size_t head = 0;
  while (head == 0) {
    if (to.length > MAX_HEAD) lose_answer(TEXT("its answer is not HTTP"));
    if (!receive(socket, &to)) lose_answer(TEXT("it has closed the connection before its answer"));
    head = head_length((struct text){to.at, to.length});
  }
  *status = number_of((struct text){to.at + sizeof "HTTP/1.1", 3});
  long length = content_length((struct text){to.at, head});
  if (!starts_with((struct text){to.at, head}, TEXT("http/1.1 ")) || *status < 0 || length < 0)
    lose_answer(TEXT("its answer is not HTTP with a length"));
  while (to.length - head < (size_t)length)
    if (!receive(socket, &to)) lose_answer(TEXT("it has closed the connection in its answer"));
  return (struct text){to.at + head, (size_t)length};
}

// Prints the agent's answer, and ends with the exit code of the specification: 0 for a result, 1 for an error object.
__attribute__((noreturn)) static void print_answer(int socket) {
  long status;
  struct text body = read_answer(socket, &status);
  struct text code = TEXT("");
  struct text message = TEXT("");
  const struct field fields[] = {{TEXT("\"code\""), &code}, {TEXT("\"msg\""), &message}};
  bool is_object = find_fields(body, fields, sizeof fields / sizeof *fields);
  bool is_result = status == 200 && is_object;
  if (!is_result && !(is_object && number_of(code) >= 0 && message.length > 0 && message.at[0] == '"'))
    lose_answer(TEXT("its answer is neither a result nor an error object"));
  // DEL and CHECK print nothing.
  if (is_result && !equals(verb, TEXT("ADD"))) sys_exit(0);
  bool is_printed = write_all(1, body.at, body.length) && write_all(1, "\n", 1);
  sys_exit(is_result && is_printed ? 0 : 1);
}

// `stack` is what the kernel passes: the number of arguments, the arguments, NULL, the environment, NULL.
__attribute__((noreturn, used)) void start(const long *stack) {
  static char bytes[MAX_REQUEST];
  static char line[128];
  struct buffer body = BUFFER(bytes);
  struct buffer head = BUFFER(line);
  environment = (const char *const *)(stack + 1 + stack[0] + 1);
  verb = variable(TEXT("CNI_COMMAND"));
  if (!equals(verb, TEXT("ADD")) && !equals(verb, TEXT("DEL")) && !equals(verb, TEXT("CHECK"))) execute_berth();
  read_input();
  if (!read_conf() || !append_call(&body)) execute_berth();
  append(&head, TEXT("POST /call HTTP/1.1\r\nHost: berth\r\nConnection: close\r\nContent-Length: "));
  append_number(&head, body.length);
  append(&head, TEXT("\r\n\r\n"));
  int socket = connect_to_agent();
  send_all(socket, (struct text){head.at, head.length});
  send_all(socket, (struct text){body.at, body.length});
  print_answer(socket);
}
