import type { CniCommandVerb } from "./settings.ts";

/** What `berth cni VERB --help` shows. */
export interface VerbHelp {
  /** What follows `berth cni VERB`. */
  readonly synopsis: string;
  /** The first sentence stands on a line of its own. */
  readonly introduction: string;
  /** The flags that the verb reads, by name. */
  readonly flags: readonly string[];
}

const FOLDERS = ["conf-dir", "bin-dir", "cache-dir"] as const;
const ATTACHMENT = ["netns", "ifname", "container-id"] as const;
const OUTPUT = ["output", "help"] as const;

export const verbHelp: Readonly<Record<CniCommandVerb, VerbHelp>> = {
  list: {
    synopsis: "[NETWORK] [--conf-dir DIR] [--cache-dir DIR] [--root-dir DIR] [-o json]",
    introduction: `Shows the networks of a folder, or what is wrong with a file, and the attachments in the cache with their pods.
Container runtimes use the first file. Programs that use CNI share the cache: MADE BY says which one has made an attachment. NETNS says whether
its network namespace still exists; if it is gone, the pod is gone too. It names the agent that executes the networks of pods. A delegate outside the
usual folder is found only while its agent runs on --root-dir.
`,
    flags: ["conf-dir", "cache-dir", "root-dir", ...OUTPUT],
  },
  status: {
    synopsis: "[NETWORK] [--conf-dir DIR] [--bin-dir DIR] [--cache-dir DIR] [-o json]",
    introduction: `Shows whether the plugins of a network are installed, speak its version, and can serve add.
Plugins of networks from cniVersion 1.1.0 on are asked by STATUS.
`,
    flags: [...FOLDERS, ...OUTPUT],
  },
  add: {
    synopsis: "[NETWORK] --netns PATH [--container-id ID] [--ifname NAME] [-o json]",
    introduction: `Attaches a network namespace to a network, and shows the interfaces, the addresses and the time of each plugin.
If a plugin fails, what the others have made is removed.

  berth cni add --netns /run/netns/blue --capability-args '{"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}'
`,
    flags: [...FOLDERS, ...ATTACHMENT, "args", "capability-args", ...OUTPUT],
  },
  check: {
    synopsis: "[NETWORK] --netns PATH [--container-id ID] [--ifname NAME] [-o json]",
    introduction: `Checks whether an attachment still is as add has made it, by CHECK of each plugin.
Exit code 1 with the words of the plugin that has found a difference.
`,
    flags: [...FOLDERS, ...ATTACHMENT, ...OUTPUT],
  },
  del: {
    synopsis: "[NETWORK] [--netns PATH] [--container-id ID] [--ifname NAME] [-o json]",
    introduction: `Removes an attachment, with the configuration and the parameters that add has cached.
An attachment that does not exist is no failure.
`,
    flags: [...FOLDERS, ...ATTACHMENT, "args", "capability-args", ...OUTPUT],
  },
  gc: {
    synopsis: "[NETWORK] [--cache-dir DIR] [--all] [-o json]",
    introduction: `Removes the attachments of a network whose network namespace is gone, or whose ADD was killed.
Keeps those whose namespace the cache does not name, as of a torn file; del removes one.
Plugins of networks from cniVersion 1.1.0 on also release what they keep of others than those in the cache.
`,
    flags: [...FOLDERS, "all", ...OUTPUT],
  },
  install: {
    synopsis: "[--conf-dir DIR] [--bin-dir DIR] [--chain-dir DIR] [--root-dir DIR] [-o json]",
    introduction: `Makes the agent execute the network of pods: the container runtime calls berth-cni as its only plugin.
Writes a list into --conf-dir, and the plugin berth-cni into the first --bin-dir; it starts this program when the agent is away. Then:

  1. set conf_dir in the configuration of the container runtime to --conf-dir
  2. restart the container runtime and the agent, which needs --network-delegate-dir for another --conf-dir than the default; pods keep running
  3. the agent executes the first network of --chain-dir; with --network=builtin, and on a standalone node while --chain-dir has no configuration,
     it executes the built-in network, which reaches no other node
`,
    flags: ["conf-dir", "bin-dir", "cache-dir", "chain-dir", "root-dir", ...OUTPUT],
  },
  uninstall: {
    synopsis: "[--conf-dir DIR] [--bin-dir DIR] [--cache-dir DIR] [--root-dir DIR] [-o json]",
    introduction: `Removes what install has made: the list in --conf-dir, and the plugin in the first --bin-dir.
Also removes the bridge and the rules of each built-in network. While pods of such a network exist it removes nothing, and names them.
Then restart the agent, and the container runtime with its former conf_dir. A built-in network whose attachments the agent still has to delete is
kept: then restart only the runtime, uninstall again when they are gone, and restart the agent last. One that belongs to another cache than
--cache-dir is kept, too.
`,
    flags: ["conf-dir", "bin-dir", "cache-dir", "chain-dir", "root-dir", ...OUTPUT],
  },
};
