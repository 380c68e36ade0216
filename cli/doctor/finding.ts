import type { Config } from "../../agent/config/config.ts";
import type { KubeletConfiguration } from "../../proto/kubelet/config.ts";
import type { RunningAgent } from "../running-agent.ts";
import type { Facts, MachineFacts } from "./machine-facts.ts";

/** The names of the checks, in the order in which they are shown. */
export const checks = [
  "user",
  "configuration",
  "pod-sources",
  "container-runtime",
  "cgroup-driver",
  "network",
  "cgroups",
  "reservations",
  "kernel-modules",
  "sysctls",
  "firewall",
  "memory",
  "swap",
  "clock",
  "temperature",
  "root-directory",
  "disk-space",
  "kubeconfig",
  "api-server",
  "file-modes",
  "ports",
  "dns",
  "agent",
] as const;

export type Check = (typeof checks)[number];

/** The result of one check. A `problem` keeps the agent, or every pod, from running; a `warning` does not. */
export interface Finding {
  readonly check: Check;
  readonly state: "ok" | "warning" | "problem";
  /** One or more plain sentences: what was found, and where. */
  readonly what: string;
  /** What to do about it. Every problem has one. */
  readonly cure?: string;
}

/** The configuration that the agent would run with, and what was said while it was read. */
export interface CheckedSettings {
  readonly config: Config;
  readonly kubelet: KubeletConfiguration;
  /** The absolute path of `--config`. */
  readonly configPath: string | undefined;
  /** Errors in the configuration files; the other settings are then those of the flags and the defaults. */
  readonly problems: readonly string[];
  readonly warnings: readonly string[];
  /** The agent whose configuration this is, and its flags that those of this command line replace. */
  readonly agent?: RunningAgent & { readonly replaced: readonly string[] };
}

/** Judges one thing; pure. */
export type Judge = (facts: MachineFacts, settings: CheckedSettings) => readonly Finding[];

export const okFinding = (check: Check, what: string): Finding => ({ check, state: "ok", what });
export const warningFinding = (check: Check, what: string, cure: string): Finding => ({
  check,
  state: "warning",
  what,
  cure,
});
export const problemFinding = (check: Check, what: string, cure: string): Finding => ({
  check,
  state: "problem",
  what,
  cure,
});

/**
 * Judges a fact that may be unreadable: then the finding says so, and why. `subject` completes the sentence "… cannot
 * be read". It is a warning, unless the agent could not start without this fact.
 */
export function judged<Name extends keyof Facts>(
  facts: MachineFacts,
  name: Name,
  { check, subject, ifUnreadable = "warning" }: { check: Check; subject: string; ifUnreadable?: "warning" | "problem" },
  judge: (value: Facts[Name]) => readonly Finding[],
): readonly Finding[] {
  const reading = facts[name];
  if ("value" in reading) return judge(reading.value);
  const what = `${subject} cannot be read: ${reading.problem}`;
  return [{ check, state: ifUnreadable, what, cure: isRoot(facts) ? CHECK_BY_HAND : "run berth doctor as root" }];
}

const CHECK_BY_HAND = "check it by hand, then run berth doctor again";

export function isRoot({ isRoot: reading }: MachineFacts): boolean {
  return "value" in reading && reading.value;
}
