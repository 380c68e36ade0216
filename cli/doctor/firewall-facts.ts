import { type Exec, ExecError } from "../../host/exec.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import { unlessCode } from "../../host/netlink/error.ts";
import { NETLINK_NETFILTER, type Netlink } from "../../host/netlink/netlink.ts";
import { listChains, listRules } from "../../host/netlink/nftables.ts";
import type { NetlinkSocket } from "../../host/netlink/socket.ts";
import type { ForwardChain } from "./forwarding.ts";
import { parseRules } from "./iptables-rules.ts";

type LegacyFamily = Extract<ForwardChain["family"], `${string}tables`>;

/** What decides on forwarded packets. */
export interface FirewallFacts {
  readonly chains: readonly ForwardChain[];
  /** The families whose table `filter` of x_tables was not read, since their program is not installed. */
  readonly unread: readonly LegacyFamily[];
}

interface FirewallPorts {
  readonly files: Pick<Files, "read">;
  readonly exec: Exec;
  readonly netlink: Pick<Netlink, "openSocket">;
  /** Where the programs are found. */
  readonly path: string;
  /** For each program. */
  readonly timeoutMs: number;
}

/**
 * Reads the chains of nftables and of x_tables that forwarded packets enter. Rejects with `NetlinkError` (`EPERM` without being
 * root), with `FilesError`, and with `ExecError` if a program fails.
 */
export async function readFirewall(ports: FirewallPorts): Promise<FirewallFacts> {
  const families = ["iptables", "ip6tables"] as const;
  const legacy = await Promise.all(families.map((family) => readLegacy(ports, family)));
  return {
    chains: [...readChains(ports.netlink), ...legacy.flatMap((chain) => (typeof chain === "object" ? chain : []))],
    unread: families.filter((_, index) => legacy[index] === "unread"),
  };
}

/** None where the kernel has no nfnetlink or no nftables. */
function readChains(netlink: FirewallPorts["netlink"]): readonly ForwardChain[] {
  const socket = unlessCode(["EPROTONOSUPPORT"], () => netlink.openSocket(NETLINK_NETFILTER));
  if (socket === undefined) return [];
  try {
    return unlessCode(["EINVAL", "EOPNOTSUPP"], () => forwardChains(socket)) ?? [];
  } finally {
    socket.close();
  }
}

function forwardChains(socket: NetlinkSocket): readonly ForwardChain[] {
  return listChains(socket).flatMap(({ family, table, chain, forwardPolicy: policy }) => {
    if (policy === undefined) return [];
    const rules = Map.groupBy(listRules(socket, { family, table }), (rule) => rule.chain);
    return [{ family, table, chain, policy, rules }];
  });
}

const MAX_FILE_BYTES = 1 << 16;

/**
 * The chain FORWARD of x_tables; undefined where the kernel has no such table. The program is started only where it has:
 * else it would load it. Plain `iptables` does not count, since it mostly is the one that lists nftables.
 */
async function readLegacy(ports: FirewallPorts, family: LegacyFamily): Promise<ForwardChain | "unread" | undefined> {
  const names = family === "iptables" ? "ip_tables_names" : "ip6_tables_names";
  const tables = await orEmpty(ports.files.read(`/proc/net/${names}`, MAX_FILE_BYTES));
  if (!tables.split("\n").includes("filter")) return undefined;
  const output = await printFilter(ports, `${family}-legacy`);
  if (output === undefined) return "unread";
  const policy = /^-P FORWARD DROP$/m.test(output) ? "drop" : "accept";
  return { family, table: "filter", chain: "FORWARD", policy, rules: parseRules(output) };
}

/** Undefined where the program is not installed. */
async function printFilter({ exec, path, timeoutMs }: FirewallPorts, program: string): Promise<string | undefined> {
  try {
    return (await exec.run([program, "-w", "-S"], { env: { PATH: path, LC_ALL: "C" }, timeoutMs })).stdout;
  } catch (error) {
    if (error instanceof ExecError && isAbsent(error)) return undefined;
    throw error;
  }
}

const isAbsent = ({ cause }: ExecError) => cause instanceof Error && "code" in cause && cause.code === "ENOENT";

async function orEmpty(content: Promise<string>): Promise<string> {
  try {
    return await content;
  } catch (error) {
    if (error instanceof FilesError && error.code === "ENOENT") return "";
    throw error;
  }
}
