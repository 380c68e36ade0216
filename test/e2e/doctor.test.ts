import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { execa } from "execa";
import type { Finding } from "../../cli/doctor/finding.ts";
import type { DoctorReport } from "../../cli/doctor/report.ts";
import { builtBinary, kubeletConfiguration } from "../bed/agent.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

for (const version of ["1.6", "2.1"] as const)
  describe(`on containerd ${version},`, () => {
    let node: TestNode;
    beforeAll(async () => {
      node = await startNode({ version });
    });
    afterAll(() => node.tearDown());

    const flags = () => [`--config=${node.paths.agentConfig}`, `--root-dir=${node.paths.agentRoot}`];

    async function doctor(...args: readonly string[]) {
      const { stdout, exitCode } = await execa(builtBinary, ["doctor", "-o", "json", ...flags(), ...args], {
        reject: false,
        timeout: 60_000,
      });
      const { findings, ...report } = JSON.parse(stdout) as DoctorReport;
      const of = (check: Finding["check"]) => findings.filter((finding) => finding.check === check);
      return { ...report, findings, of, exitCode };
    }

    test("doctor reaches the runtime and names its version, its network and the agent on it", async () => {
      const { findings, of, exitCode, ok } = await doctor();
      const { endpoint } = node.containerd;
      expect(of("container-runtime")).toEqual([
        {
          check: "container-runtime",
          state: "ok",
          what: expect.stringMatching(
            new RegExp(`^containerd v?${RegExp.escape(version)}\\.\\d+\\S* answers on ${RegExp.escape(endpoint)}$`),
          ),
        },
      ]);
      // The runtime says where its configuration is: not in the usual folder.
      const uses = new RegExp(`^${RegExp.escape(node.paths.cniConfDir)}/\\S+ uses .*bridge.* all in /`);
      expect(of("network")).toEqual([{ check: "network", state: "ok", what: expect.stringMatching(uses) }]);
      expect(of("cgroup-driver").map(({ what }) => what)).toEqual([
        expect.stringContaining("containerd uses cgroupfs, and the agent makes no cgroups"),
      ]);
      const statusCommand = `${builtBinary} status --root-dir ${node.paths.agentRoot}`;
      expect(of("agent").map(({ what }) => what)).toEqual([`runs as node berth: ${statusCommand} shows more`]);
      expect(of("disk-space")).toHaveLength(3);
      expect({ ok, exitCode }).toEqual({
        ok: !findings.some(({ state }) => state === "problem"),
        exitCode: ok ? 0 : 1,
      });
    });

    test("doctor takes the flags of the running agent, also without its --config", async () => {
      const argv = ["doctor", "-o", "json", `--root-dir=${node.paths.agentRoot}`];
      const { stdout } = await execa(builtBinary, argv, { reject: false, timeout: 60_000 });
      const found = (JSON.parse(stdout) as DoctorReport).findings.map(({ what }) => what);
      expect(found).toContainEqual(
        expect.stringMatching(new RegExp(`^that of the running agent .process ${node.agent.pid}., .*--config`)),
      );
      expect(found).toContain(`${node.paths.agentConfig} can be used`);
      expect(found).toContainEqual(expect.stringContaining(` answers on ${node.containerd.endpoint}`));
    });

    test("a wrong endpoint is a problem with its cure and exit code 1", async () => {
      const { of, exitCode, ok } = await doctor("--container-runtime-endpoint=unix:///not/here.sock");
      expect(of("container-runtime")).toEqual([
        {
          check: "container-runtime",
          state: "problem",
          what: "unix:///not/here.sock does not exist: no container runtime runs there",
          cure: expect.stringContaining("--container-runtime-endpoint"),
        },
      ]);
      expect({ ok, exitCode }).toEqual({ ok: false, exitCode: 1 });
    });

    test("another server than a container runtime is a problem", async () => {
      const socket = join(node.folder, "other.sock");
      const server = createServer((connection) => connection.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
      await new Promise<void>((resolve) => server.listen(socket, resolve));
      const { of, exitCode } = await doctor(`--container-runtime-endpoint=unix://${socket}`);
      server.close();
      expect(of("container-runtime").map(({ state }) => state)).toEqual(["problem"]);
      expect(exitCode).toBe(1);
    });

    test("a user other than root gets warnings for what only root can read", async () => {
      const folder = join(node.folder, "public");
      await mkdir(folder);
      const binary = join(folder, "berth");
      await execa("cp", [builtBinary, binary]);
      const config = join(folder, "kubelet.yaml");
      const { endpoint } = node.containerd;
      await writeFile(config, kubeletConfiguration({ manifests: "/nowhere", podLogs: "/var/log/pods", endpoint }));
      for (const each of [folder, binary]) await chmod(each, 0o755);
      await chmod(config, 0o644);
      const absentUser = ["--reuid=65534", "--regid=65534", "--clear-groups"];
      const own = [`--config=${config}`, `--root-dir=${node.paths.agentRoot}`];
      const { stdout } = await execa("setpriv", [...absentUser, binary, "doctor", ...own], {
        reject: false,
        timeout: 60_000,
      });
      expect(stdout).toMatch(/^warning {2}user +not root: /m);
      expect(stdout).toMatch(/^warning {2}container runtime +this user may not connect to /m);
    });
  });
