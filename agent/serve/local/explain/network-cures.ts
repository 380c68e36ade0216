import { shellWord } from "../../../../proto/shell-word.ts";
import type { Cure, CureRule } from "./cure-rule.ts";

/** The reasons of pods whose sandbox does not start. */
export const SANDBOX = /SandboxError$|^FailedCreatePodSandBox$|^ContainerCreating$|^$/;

/** The plugins of Debian's package containernetworking-plugins, in /usr/lib/cni. */
const OF_DEBIAN =
  /^(bandwidth|bridge|dhcp|dummy|firewall|host-device|host-local|ipvlan|loopback|macvlan|portmap|ptp|sbr|static|tap|tuning|vlan|vrf)$/;

/** `folders` are those that an executor of CNI has searched, the first one first. */
function missingPluginsCure(plugins: readonly string[], folders: readonly string[]): Cure {
  const [folder = ""] = folders;
  const commands = ["berth doctor", `ls ${folders.map(shellWord).join(" ")}`];
  const names = plugins.length === 1 ? `the plugin ${plugins[0]}` : `the plugins ${plugins.join(", ")}`;
  if (plugins.length === 1 && plugins[0] === "berth-cni")
    return { text: `let berth cni install put its plugin into ${folder}: --bin-dir`, commands };
  const isDebian = plugins.every((plugin) => OF_DEBIAN.test(plugin));
  const source = isDebian ? " (Debian: containernetworking-plugins has it in /usr/lib/cni)" : "";
  return {
    text: `put ${names} into ${folder}${plugins.length === 1 ? source : source.replace(" it ", " them ")}`,
    commands,
  };
}

const words = (text: string) => text.split(/(?: and |, |[\s:])/).filter((word) => word !== "");

/** The cures of a pod that waits for the network of the node, or whose sandbox got none. The first rule that matches counts. */
export const networkRules: readonly CureRule[] = [
  {
    reason: SANDBOX,
    message: /failed to find plugin "([^"]+)" in path \[([^\]]+)\]/,
    cure: (_, [, plugin = "", path = ""]) => missingPluginsCure([plugin], words(path)),
  },
  {
    // As Berth says it of the folders of the runtime, and of those of the delegate.
    reason: SANDBOX,
    message: / needs ([^;:]+), and (?:it is|they are) not in ([^;:]+)/,
    cure: (_, [, plugins = "", folders = ""]) => missingPluginsCure(words(plugins), words(folders)),
  },
  {
    reason: SANDBOX,
    message:
      /set conf_dir = "[^"]+" in its configuration and restart it|before the list of berth-cni: remove that file/,
    cure: () => ({ text: "do what the message says; berth doctor shows the folders", commands: ["berth doctor"] }),
  },
  {
    reason: SANDBOX,
    message: /(\S+) has no network configuration/,
    cure: (_, [, folder]) => ({
      text: `install a network into ${folder}, or let the agent execute the built-in network: berth doctor says how`,
      commands: ["berth doctor"],
    }),
  },
  {
    reason: SANDBOX,
    message: /cni|network(?! not ready)|plugin/i,
    cure: () => ({
      text: "the network of pods does not work on this node: check the configuration and the plugins of CNI, whose folders berth doctor names",
      commands: ["berth doctor"],
    }),
  },
];
