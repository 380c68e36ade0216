import { expect, test } from "bun:test";
import { type Exec, ExecError } from "../../host/exec.ts";
import { FilesError } from "../../host/fs/files.ts";
import { NetlinkError } from "../../host/netlink/error.ts";
import { readFirewall } from "./firewall-facts.ts";

/** A kernel without nftables, whose x_tables has a table `filter` of IPv4. `outputs` are those of the installed programs. */
function readWith(outputs: Readonly<Record<string, string>>, tables = "nat\nfilter\n") {
  const asked: string[] = [];
  const exec: Exec = {
    run: async (argv) => {
      asked.push(argv.join(" "));
      const stdout = outputs[argv[0]];
      const absent = Object.assign(new Error("absent"), { code: "ENOENT" });
      if (stdout === undefined) throw new ExecError(argv, undefined, "", `${argv[0]} could not be run: ENOENT`, absent);
      return { stdout, stderr: "" };
    },
  };
  const files = {
    read: async (path: string) => {
      if (path === "/proc/net/ip_tables_names") return tables;
      throw new FilesError("ENOENT", path, `${path} does not exist`);
    },
  };
  const netlink = {
    openSocket: () => {
      throw new NetlinkError("EPROTONOSUPPORT", "open a netlink socket", "");
    },
  };
  return { asked, firewall: readFirewall({ files, exec, netlink, path: "/sbin", timeoutMs: 4_000 }) };
}

const forward = { family: "iptables", table: "filter", chain: "FORWARD" } as const;

test.each([
  ["-P FORWARD DROP\n", "drop"],
  ["-P INPUT DROP\n-P FORWARD ACCEPT\n", "accept"],
] as const)("policy and rules are what iptables-legacy prints: %j", async (stdout, policy) => {
  const { asked, firewall } = readWith({ "iptables-legacy": `${stdout}-A FORWARD -j ACCEPT\n` });
  const rules = new Map([["FORWARD", [{ chain: "FORWARD", conditions: [], verdict: { kind: "accept" } as const }]]]);
  expect(await firewall).toEqual({ chains: [{ ...forward, policy, rules }], unread: [] });
  expect(asked).toEqual(["iptables-legacy -w -S"]);
});

test("where there is no iptables-legacy, the table is not read, and iptables is not asked: it lists nftables", async () => {
  expect(await readWith({ iptables: "-P FORWARD DROP\n" }).firewall).toEqual({ chains: [], unread: ["iptables"] });
});

test("no program is started where the kernel has no such table", async () => {
  const { asked, firewall } = readWith({}, "nat\n");
  expect(await firewall).toEqual({ chains: [], unread: [] });
  expect(asked).toEqual([]);
});
