import { type Exec, ExecError } from "../../host/exec.ts";
import { type Files, FilesError } from "../../host/fs/files.ts";
import { unlessCode } from "../../host/netlink/error.ts";
import { NETLINK_NETFILTER, type Netlink } from "../../host/netlink/netlink.ts";
import { listChains, type NftChain } from "../../host/netlink/nftables.ts";

/** A chain that drops every forwarded packet that no rule of it accepts. */
export interface ForwardDrop extends Pick<NftChain, "table" | "chain"> {
  /** `iptables` and `ip6tables` are the tables of x_tables, which nftables does not list. */
  readonly family: NftChain["family"] | "iptables" | "ip6tables";
  /** The program that keeps the rules of its table; undefined for any other. */
  readonly owner: "docker" | "ufw" | undefined;
}

interface ForwardDropPorts {
  readonly files: Pick<Files, "read">;
  readonly exec: Exec;
  readonly netlink: Pick<Netlink, "openSocket">;
  /** Where the programs are found. */
  readonly path: string;
  /** For each program. */
  readonly timeoutMs: number;
}

/** Rejects with `NetlinkError` (`EPERM` without being root), with `FilesError`, and with `ExecError` if a program fails. */
export async function readForwardDrops(ports: ForwardDropPorts): Promise<readonly ForwardDrop[]> {
  const legacy = await Promise.all([legacyDrops(ports, "iptables"), legacyDrops(ports, "ip6tables")]);
  return [...forwardDropsOf(readChains(ports.netlink)), ...legacy.flat()];
}

/** None where the kernel has no nfnetlink or no nftables. */
function readChains(netlink: ForwardDropPorts["netlink"]): readonly NftChain[] {
  const socket = unlessCode(["EPROTONOSUPPORT"], () => netlink.openSocket(NETLINK_NETFILTER));
  if (socket === undefined) return [];
  try {
    return unlessCode(["EINVAL", "EOPNOTSUPP"], () => listChains(socket)) ?? [];
  } finally {
    socket.close();
  }
}

/** Docker and ufw have chains of their own in the table `filter`. */
function forwardDropsOf(chains: readonly NftChain[]): readonly ForwardDrop[] {
  return chains
    .filter(({ dropsForwarded }) => dropsForwarded)
    .map(({ family, table, chain }) => {
      const beside = chains.filter((other) => other.family === family && other.table === table);
      return { family, table, chain, owner: ownerOf(beside.map((other) => other.chain)) };
    });
}

function ownerOf(chains: readonly string[]): ForwardDrop["owner"] {
  if (chains.includes("DOCKER-USER")) return "docker";
  return chains.includes("ufw-before-forward") ? "ufw" : undefined;
}

const MAX_FILE_BYTES = 1 << 16;

/** The chain FORWARD of x_tables. Its program is started only where the kernel lists its table: else it would load it. */
async function legacyDrops(ports: ForwardDropPorts, family: "iptables" | "ip6tables"): Promise<readonly ForwardDrop[]> {
  const names = family === "iptables" ? "ip_tables_names" : "ip6_tables_names";
  const tables = await orEmpty(ports.files.read(`/proc/net/${names}`, MAX_FILE_BYTES));
  if (!tables.split("\n").includes("filter")) return [];
  const lines = (await printForward(ports, family)).split("\n").map((line) => line.trim());
  if (!lines.includes("-P FORWARD DROP")) return [];
  const targets = lines.flatMap((line) => /^-A FORWARD .*-j (\S+)/.exec(line)?.[1] ?? []);
  return [{ family, table: "filter", chain: "FORWARD", owner: ownerOf(targets) }];
}

/** Where there is no `iptables-legacy`, `iptables` is of the time before nftables. */
async function printForward({ exec, path, timeoutMs }: ForwardDropPorts, program: string): Promise<string> {
  const options = { env: { PATH: path, LC_ALL: "C" }, timeoutMs };
  const run = async (name: string) => (await exec.run([name, "-w", "-S", "FORWARD"], options)).stdout;
  try {
    return await run(`${program}-legacy`);
  } catch (error) {
    if (error instanceof ExecError && isAbsent(error)) return await run(program);
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
