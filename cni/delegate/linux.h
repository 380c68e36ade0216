// The system calls of berth-cni.c without a C library, whose start would take longer than a call. Numbers and constants are those of
// Linux on x86-64 and arm64.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#if defined(__x86_64__)

enum {
  SYS_read = 0,
  SYS_write = 1,
  SYS_lseek = 8,
  SYS_socket = 41,
  SYS_connect = 42,
  SYS_sendto = 44,
  SYS_setsockopt = 54,
  SYS_execve = 59,
  SYS_clock_gettime = 228,
  SYS_exit_group = 231,
  SYS_readlinkat = 267,
  SYS_dup3 = 292,
  SYS_memfd_create = 319,
};

static long call6(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

// The kernel passes the arguments and the environment on the stack.
__asm__(".global _start\n_start:\n\txor %ebp, %ebp\n\tmov %rsp, %rdi\n\tand $-16, %rsp\n\tcall start\n");

#elif defined(__aarch64__)

enum {
  SYS_dup3 = 24,
  SYS_lseek = 62,
  SYS_read = 63,
  SYS_write = 64,
  SYS_readlinkat = 78,
  SYS_exit_group = 94,
  SYS_clock_gettime = 113,
  SYS_socket = 198,
  SYS_connect = 203,
  SYS_sendto = 206,
  SYS_setsockopt = 208,
  SYS_execve = 221,
  SYS_memfd_create = 279,
};

static long call6(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc #0"
                   : "+r"(x0)
                   : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                   : "memory");
  return x0;
}

__asm__(".global _start\n_start:\n\tmov x29, #0\n\tmov x30, #0\n\tmov x0, sp\n\tbl start\n");

#else
#error "berth-cni.c knows the system calls of x86-64 and arm64"
#endif

enum {
  EINTR = 4,
  EAGAIN = 11,
};

enum {
  AF_UNIX = 1,
  SOCK_STREAM = 1,
  SOCK_CLOEXEC = 02000000,
  SOL_SOCKET = 1,
  SO_RCVTIMEO = 20,
  SO_SNDTIMEO = 21,
  MSG_NOSIGNAL = 0x4000,
  MFD_CLOEXEC = 1,
  CLOCK_MONOTONIC = 1,
  AT_FDCWD = -100,
};

struct unix_address {
  unsigned short family;
  char path[108];
};

// struct timespec and struct timeval: seconds, and nanoseconds or microseconds.
struct kernel_time {
  long seconds;
  long fraction;
};

// Each returns what the kernel returns: a negative errno for a failure.
static long sys_read(int file, void *to, size_t size) { return call6(SYS_read, file, (long)to, (long)size, 0, 0, 0); }
static long sys_write(int file, const void *from, size_t size) {
  return call6(SYS_write, file, (long)from, (long)size, 0, 0, 0);
}
static long sys_rewind(int file) { return call6(SYS_lseek, file, 0, 0, 0, 0, 0); }
static long sys_unix_socket(void) { return call6(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, 0, 0, 0); }
static long sys_connect(int socket, const struct unix_address *address) {
  return call6(SYS_connect, socket, (long)address, sizeof *address, 0, 0, 0);
}
static long sys_send(int socket, const void *from, size_t size) {
  return call6(SYS_sendto, socket, (long)from, (long)size, MSG_NOSIGNAL, 0, 0);
}
static long sys_set_timeout(int socket, int option, const struct kernel_time *timeout) {
  return call6(SYS_setsockopt, socket, SOL_SOCKET, option, (long)timeout, sizeof *timeout, 0);
}
static long sys_memfd(const char *name) { return call6(SYS_memfd_create, (long)name, MFD_CLOEXEC, 0, 0, 0, 0); }
// The copy stays open in the program that is executed.
static long sys_duplicate(int from, int to) { return call6(SYS_dup3, from, to, 0, 0, 0, 0); }
static long sys_read_link(const char *path, char *to, size_t size) {
  return call6(SYS_readlinkat, AT_FDCWD, (long)path, (long)to, (long)size, 0, 0);
}
static long sys_execute(const char *path, const char *const *arguments, const char *const *environment) {
  return call6(SYS_execve, (long)path, (long)arguments, (long)environment, 0, 0, 0);
}
static long sys_clock(struct kernel_time *now) {
  return call6(SYS_clock_gettime, CLOCK_MONOTONIC, (long)now, 0, 0, 0, 0);
}
__attribute__((noreturn)) static void sys_exit(int code) {
  for (;;) call6(SYS_exit_group, code, 0, 0, 0, 0, 0);
}

// Compilers call these for assignments of structures and arrays.
void *memcpy(void *to, const void *from, size_t size) {
  for (size_t at = 0; at < size; at++) {
    ((char *)to)[at] = ((const char *)from)[at];
    // Keeps the compiler from turning this loop into a call of memcpy.
    __asm__ volatile("" ::: "memory");
  }
  return to;
}

void *memset(void *to, int value, size_t size) {
  for (size_t at = 0; at < size; at++) {
    ((char *)to)[at] = (char)value;
    __asm__ volatile("" ::: "memory");
  }
  return to;
}
