import { LOCAL_SOCKET } from "../../agent/config/local-socket.ts";
import { withEndpoint } from "../../agent/serve/local/explain/runtime-commands.ts";
import { joinWithAnd } from "../../proto/join-with-and.ts";
import { sizeText } from "../../proto/size-text.ts";
import { fitsSocketPath, MAX_SOCKET_PATH_BYTES } from "../../proto/socket-path.ts";
import {
  type CheckedSettings,
  type Finding,
  isRoot,
  type Judge,
  judged,
  okFinding,
  problemFinding,
  warningFinding,
} from "./finding.ts";
import { thresholdBytes } from "./kernel-findings.ts";
import type { KubeconfigFacts } from "./kubeconfig-facts.ts";
import { type MachineFacts, type PlacedSpace, usualConfig } from "./machine-facts.ts";

export const judgeUser: Judge = (facts) => [
  isRoot(facts)
    ? okFinding("user", "root")
    : warningFinding(
        "user",
        "not root: berth doctor cannot read everything, and berth run needs root",
        "run berth doctor as root",
      ),
];

export const judgeConfiguration: Judge = (facts, { configPath, problems, warnings, agent }) => [
  ...(agent === undefined ? [] : [whoseConfiguration(agent), ...judgeAge(facts, agent)]),
  ...problems.map((text) =>
    problemFinding("configuration", text, "correct it; until then the other checks use flags and defaults alone"),
  ),
  ...warnings.map((text) =>
    warningFinding("configuration", text, "accept it, or change that setting: berth run starts in either case"),
  ),
  ...(problems.length > 0 ? [] : [whichConfiguration(configPath, facts.hasUsualConfig, agent)]),
];

/** The names of its flags; a value may be a secret. */
function whoseConfiguration({ pid, flags, replaced }: NonNullable<CheckedSettings["agent"]>): Finding {
  const names = (all: readonly string[]) => joinWithAnd(all.map((name) => `--${name}`));
  const own = [...new Set(flags.map(({ flag }) => flag.name))].filter((name) => !replaced.includes(name));
  const started = own.length === 0 ? "no other flags" : names(own);
  const given = replaced.length === 0 ? "" : `, and with ${names(replaced)} as given here`;
  return okFinding(
    "configuration",
    `that of the running agent (process ${pid}), which was started with ${started}${given}`,
  );
}

/** The agent reads its configuration once. */
const judgeAge = (facts: MachineFacts, { startedAt }: NonNullable<CheckedSettings["agent"]>) =>
  judged(
    facts,
    "configFile",
    { check: "configuration", subject: "the modification time of the configuration file" },
    (found) =>
      found === undefined || found.modifiedMs <= startedAt
        ? []
        : [
            warningFinding(
              "configuration",
              `${found.path} was changed after the agent started: the agent uses the old content, doctor checks the new one`,
              "restart the agent; its pods keep running",
            ),
          ],
  );

function whichConfiguration(
  path: string | undefined,
  hasUsual: { readonly value: boolean } | object,
  agent: CheckedSettings["agent"],
): Finding {
  if (path !== undefined) return okFinding("configuration", `${path} can be used`);
  const isOverlooked = agent === undefined && "value" in hasUsual && hasUsual.value === true;
  if (!isOverlooked) return okFinding("configuration", "no --config: flags and defaults");
  return warningFinding(
    "configuration",
    `no --config is given, so the defaults were checked; this machine has ${usualConfig}`,
    `to check what an agent with that file would use: berth doctor --config ${usualConfig}`,
  );
}

/** Where pods come from: without a source the agent starts nothing. */
export const judgePodSources: Judge = (facts, { config: { staticPodPath, staticPodURL, clusterConfigSource } }) => {
  const named = [
    ...(clusterConfigSource === undefined ? [] : ["the API server"]),
    ...(staticPodPath === undefined ? [] : [staticPodPath]),
    ...(staticPodURL === undefined ? [] : ["staticPodURL"]),
  ];
  if (named.length === 0)
    return [
      warningFinding(
        "pod-sources",
        "no source of pods is configured: the agent would run and start nothing",
        "set --kubeconfig for a node of a cluster, or staticPodPath for pods from files",
      ),
    ];
  const subject = { check: "pod-sources", subject: staticPodPath ?? "staticPodPath" } as const;
  return judged(facts, "manifests", subject, (kind) =>
    staticPodPath !== undefined && kind === undefined
      ? [
          warningFinding(
            "pod-sources",
            `${staticPodPath} does not exist: no pods come from there`,
            `mkdir -p ${staticPodPath}`,
          ),
        ]
      : [okFinding("pod-sources", joinWithAnd(named))],
  );
};

export const judgeRootDirectory: Judge = (facts, { config: { rootDir } }) => {
  const socket = `${rootDir}/${LOCAL_SOCKET}`;
  if (!fitsSocketPath(socket))
    return [
      problemFinding(
        "root-directory",
        `${socket} is longer than the ${MAX_SOCKET_PATH_BYTES} bytes that a socket's path may have`,
        "set --root-dir to a shorter path",
      ),
    ];
  const subject = { check: "root-directory", subject: rootDir, ifUnreadable: "problem" } as const;
  return judged(facts, "rootDir", subject, (kind) => {
    if (kind === undefined || kind === "directory") {
      const found = kind === undefined ? `${rootDir} does not exist yet: the agent creates it` : rootDir;
      return judged(facts, "isRootReadOnly", subject, (isReadOnly) => [
        isReadOnly ? problemFinding("root-directory", ...readOnly(rootDir)) : okFinding("root-directory", found),
        ...judgeRootOwner(facts, rootDir),
        ...judgeRootMount(facts, rootDir),
      ]);
    }
    return [
      problemFinding(
        "root-directory",
        `${rootDir} is a ${kind} and not a directory`,
        "remove it, or set --root-dir to another directory",
      ),
    ];
  });
};

const ROOT_USER = 0;

function judgeRootOwner(facts: MachineFacts, rootDir: string): readonly Finding[] {
  const subject = { check: "root-directory", subject: `the owner of ${rootDir}` } as const;
  return judged(facts, "rootDirOwner", subject, (owner = ROOT_USER) =>
    owner === ROOT_USER
      ? []
      : [
          warningFinding(
            "root-directory",
            `${rootDir} belongs to the user with id ${owner}, who can change the agent's records and the volumes of pods`,
            `chown root:root ${rootDir}`,
          ),
        ],
  );
}

/** A private mount hides from containers what is mounted later, and from this machine what containers mount. */
function judgeRootMount(facts: MachineFacts, rootDir: string): readonly Finding[] {
  const subject = { check: "root-directory", subject: `the mount of ${rootDir}` } as const;
  return judged(facts, "rootMount", subject, (mount) =>
    mount === undefined || mount.isShared
      ? []
      : [
          warningFinding(
            "root-directory",
            `${rootDir} is on the mount ${mount.mountPoint}, which is not shared: mountPropagation HostToContainer and Bidirectional have no effect`,
            `mount --make-rshared ${mount.mountPoint}, at each boot before the container runtime starts`,
          ),
        ],
  );
}

const readOnly = (path: string) =>
  [
    `the file system of ${path} is read-only: the agent cannot keep its records`,
    "look for disk errors (dmesg), replace a failing disk or SD card, or mount -o remount,rw; or set --root-dir to another disk",
  ] as const;

/** Below these thresholds the node reports DiskPressure, and the scheduler sends it no pods. */
export const judgeDiskSpace: Judge = (facts, { config }) => {
  const subject = (path: string) => ({ check: "disk-space", subject: `the free space of ${path}` }) as const;
  return [
    ...judged(facts, "rootSpace", { ...subject(config.rootDir), ifUnreadable: "problem" }, (space) =>
      judgeSpace(space, "nodefs", config),
    ),
    ...judged(facts, "logSpace", { ...subject(config.podLogsDir), ifUnreadable: "problem" }, (space) =>
      judgeSpace(space, "nodefs", config),
    ),
    ...judged(facts, "imageSpace", subject("the images"), (space) =>
      space === undefined ? [] : judgeSpace(space, "imagefs", config),
    ),
  ];
};

function judgeSpace(
  { path, freeBytes, totalBytes, freeInodes, totalInodes }: PlacedSpace,
  signal: "nodefs" | "imagefs",
  { node: { evictionHard: thresholds }, containerRuntimeEndpoint }: CheckedSettings["config"],
): readonly Finding[] {
  const found = `${path}: ${sizeText(freeBytes)} of ${sizeText(totalBytes)} free`;
  const limit = thresholdBytes(thresholds[`${signal}.available`], totalBytes);
  const inodes = thresholdBytes(thresholds[`${signal}.inodesFree`], totalInodes);
  const consequence = "the node reports DiskPressure and gets no pods";
  const cure =
    signal === "imagefs"
      ? `remove unused images (${withEndpoint("crictl rmi --prune", containerRuntimeEndpoint)}), or use a larger disk`
      : "remove what is not needed (journalctl --vacuum-size=100M, apt-get clean), or use a larger disk";
  if (freeBytes < limit)
    return [
      problemFinding(
        "disk-space",
        `${found}, less than evictionHard allows (${sizeText(limit)}): ${consequence}`,
        cure,
      ),
    ];
  if (freeInodes < inodes)
    return [
      problemFinding(
        "disk-space",
        `${path}: ${freeInodes} of ${totalInodes} inodes free, less than evictionHard allows: ${consequence}`,
        cure,
      ),
    ];
  return [okFinding("disk-space", found)];
}

export const judgeKubeconfig: Judge = (facts, { config: { clusterConfigSource } }) => {
  if (clusterConfigSource?.kind !== "kubeconfig") return [];
  const subject = { check: "kubeconfig", subject: clusterConfigSource.path, ifUnreadable: "problem" } as const;
  return judged(facts, "kubeconfig", subject, (found) =>
    found === undefined ? [] : judgeIdentity(found, "value" in facts.nowMs ? facts.nowMs.value : 0),
  );
};

const NEW_CERTIFICATE =
  "join the node again (kubeadm token create --print-join-command on the control plane, kubeadm reset and kubeadm join here), or copy a new certificate to this node";

function judgeIdentity({ path, mode, secretFiles, certificate }: KubeconfigFacts, nowMs: number): readonly Finding[] {
  if (mode === undefined)
    return [
      problemFinding(
        "kubeconfig",
        `${path} does not exist`,
        "join the node to its cluster (kubeadm join writes it), or remove --kubeconfig for a node with pods from files",
      ),
    ];
  const absent = secretFiles.filter((file) => file.mode === undefined).map((file) => file.path);
  if (absent.length > 0)
    return [
      problemFinding("kubeconfig", `${path} names ${joinWithAnd(absent)}, which does not exist`, NEW_CERTIFICATE),
    ];
  if (certificate === undefined) return [okFinding("kubeconfig", path)];
  const { notBeforeMs, notAfterMs } = certificate;
  if (nowMs < notBeforeMs)
    return [
      problemFinding(
        "kubeconfig",
        `the client certificate of ${path} is valid only from ${dateOf(notBeforeMs)} on, and the clock shows ${dateOf(nowMs)}`,
        "set the clock: timedatectl set-ntp true, or install and start chrony",
      ),
    ];
  if (nowMs > notAfterMs)
    return [
      problemFinding(
        "kubeconfig",
        `the client certificate of ${path} expired on ${dateOf(notAfterMs)}`,
        NEW_CERTIFICATE,
      ),
    ];
  return [okFinding("kubeconfig", `${path}; its client certificate is valid until ${dateOf(notAfterMs)}`)];
}

const dateOf = (ms: number) => new Date(ms).toISOString().slice(0, 10);

const OTHERS_MAY = 0o077;
const OTHERS_MAY_WRITE = 0o022;

/** Only root reads secrets and changes the configuration (CIS Kubernetes Benchmark 4.1). */
export const judgeFileModes: Judge = (facts, { config: { clusterConfigSource } }) => {
  const kubeconfig = clusterConfigSource?.kind === "kubeconfig" ? clusterConfigSource.path : undefined;
  const wide = [
    ...judged(facts, "kubeconfig", { check: "file-modes", subject: "the kubeconfig's mode" }, (found) =>
      found === undefined
        ? []
        : [found, ...found.secretFiles].flatMap(({ path, mode = 0 }) =>
            (mode & OTHERS_MAY) === 0
              ? []
              : [
                  warningFinding(
                    "file-modes",
                    `${path} holds secrets and has mode ${octal(mode)}`,
                    `chmod 600 ${path}`,
                  ),
                ],
          ),
    ),
    ...judged(
      facts,
      "kubeconfigOwner",
      { check: "file-modes", subject: "the kubeconfig's owner" },
      (owner = ROOT_USER) =>
        owner === ROOT_USER || kubeconfig === undefined
          ? []
          : [
              warningFinding(
                "file-modes",
                `${kubeconfig} belongs to the user with id ${owner}, who can read and change it`,
                `chown root:root ${kubeconfig}`,
              ),
            ],
    ),
    ...judged(facts, "configFile", { check: "file-modes", subject: "the configuration's mode" }, (found) =>
      found === undefined || (found.mode & OTHERS_MAY_WRITE) === 0
        ? []
        : [
            warningFinding(
              "file-modes",
              `${found.path} has mode ${octal(found.mode)}: other users can change the configuration`,
              `chmod go-w ${found.path}`,
            ),
          ],
    ),
  ];
  const isAnyPresent = [facts.kubeconfig, facts.configFile].some((file) => "value" in file && file.value !== undefined);
  if (wide.length > 0 || !isAnyPresent) return wide;
  return [okFinding("file-modes", "other users cannot read the secrets, nor change the configuration")];
};

const octal = (mode: number) => mode.toString(8).padStart(4, "0");

/** Programs that contain a kubelet. */
const KUBELETS = /^(kubelet|kubelite|k3s.*|k0s|rke2)$/;

/** Two agents on one runtime remove each other's pods, so another kubelet is a problem even where ports differ. */
export const judgePorts: Judge = (facts, { config: { api }, kubelet: { port, healthzPort } }) =>
  judged(facts, "listeners", { check: "ports", subject: "/proc/net/tcp" }, (listeners) => {
    const own = "value" in facts.agent ? facts.agent.value?.pid : undefined;
    const foreign = listeners.filter(({ pid }) => pid === undefined || pid !== own);
    const ports = [port, healthzPort].filter((each) => each > 0).join(" or ");
    if (foreign.length === 0) return [okFinding("ports", `no other program listens on ${ports}`)];
    return foreign.map(({ port: used, pid, program = "" }) =>
      KUBELETS.test(program)
        ? problemFinding(
            "ports",
            `${program} (process ${pid}) listens on port ${used}: two agents on one container runtime remove each other's pods`,
            `stop it: systemctl disable --now ${program}`,
          )
        : foreignListener(pid === undefined ? "another program" : `${program} (process ${pid})`, used, api?.port),
    );
  });

/** The agent does not start without the port of its API, but without that of its health checks. */
function foreignListener(program: string, port: number, apiPort: number | undefined): Finding {
  const listens = `${program} listens on port ${port}`;
  const ifKubelet = "if it contains a kubelet, stop it before berth run";
  return port === apiPort
    ? problemFinding("ports", `${listens}, which the node's API needs`, `stop that program, or set port; ${ifKubelet}`)
    : warningFinding(
        "ports",
        `${listens}, a port of the kubelet`,
        `stop that program, or set healthzPort; ${ifKubelet}`,
      );
}

/** A resolver on the node's own loopback does not exist inside a pod: CoreDNS then asks itself (kubeadm#273). */
export const judgeDns: Judge = (facts, { config: { resolvConf } }) =>
  judged(facts, "nameservers", { check: "dns", subject: resolvConf ?? "resolvConf" }, (servers) => {
    if (resolvConf === undefined)
      return [okFinding("dns", "pods do not inherit the node's resolver (resolvConf is empty)")];
    if (servers.length === 0)
      return [
        warningFinding("dns", `${resolvConf} names no nameserver`, "name one there, or set resolvConf to another file"),
      ];
    if (!servers.every((server) => /^(127\.|::1$)/.test(server)))
      return [okFinding("dns", `${resolvConf} names ${joinWithAnd(servers)}`)];
    return [
      warningFinding(
        "dns",
        `${resolvConf} names ${joinWithAnd(servers)} alone, which no pod can reach`,
        "set resolvConf: /run/systemd/resolve/resolv.conf in the configuration (with systemd-resolved), or a file with the real nameservers",
      ),
    ];
  });

export const judgeAgent: Judge = (facts, { config: { rootDir } }) =>
  judged(facts, "agent", { check: "agent", subject: `the agent's socket below ${rootDir}` }, (agent) => [
    okFinding(
      "agent",
      agent === undefined
        ? `none runs with the root directory ${rootDir}`
        : `runs as node ${agent.node}: berth status shows more`,
    ),
  ]);
