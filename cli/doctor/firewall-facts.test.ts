import { expect, test } from "bun:test";
import { type Exec, ExecError } from "../../host/exec.ts";
import { FilesError } from "../../host/fs/files.ts";
import { NetlinkError } from "../../host/netlink/error.ts";
import { readForwardDrops } from "./firewall-facts.ts";

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
  return { asked, drops: readForwardDrops({ files, exec, netlink, path: "/sbin", timeoutMs: 4_000 }) };
}

const drop = { family: "iptables", table: "filter", chain: "FORWARD" } as const;

test.each([
  ["-P FORWARD DROP\n-A FORWARD -j DOCKER-USER\n", [{ ...drop, owner: "docker" as const }]],
  ["-P FORWARD DROP\n-A FORWARD -j ufw-before-forward\n", [{ ...drop, owner: "ufw" as const }]],
  ["-P FORWARD DROP\n", [{ ...drop, owner: undefined }]],
  ["-P FORWARD ACCEPT\n-A FORWARD -j DOCKER-USER\n", []],
])("the policy is what iptables-legacy prints: %j", async (stdout, expected) => {
  const { asked, drops } = readWith({ "iptables-legacy": stdout });
  expect(await drops).toEqual(expected);
  expect(asked).toEqual(["iptables-legacy -w -S FORWARD"]);
});

test("where there is no iptables-legacy, iptables prints it", async () => {
  expect(await readWith({ iptables: "-P FORWARD DROP\n" }).drops).toEqual([{ ...drop, owner: undefined }]);
});

test("no program is started where the kernel has no such table", async () => {
  const { asked, drops } = readWith({}, "nat\n");
  expect(await drops).toEqual([]);
  expect(asked).toEqual([]);
});

test("it rejects where neither program is installed", async () => {
  await expect(readWith({}).drops).rejects.toThrow("iptables could not be run: ENOENT");
});
