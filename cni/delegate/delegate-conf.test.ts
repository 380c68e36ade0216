import { describe, expect, test } from "bun:test";
import { parseNetworkConf } from "../conf.ts";
import { containsDelegate } from "../delegate-network.ts";
import { type DelegateConf, delegateOf, formatDelegateList, parseDelegateConf } from "./delegate-conf.ts";

const conf: DelegateConf = {
  socket: "/var/lib/kubelet/cni.sock",
  confDir: "/etc/cni/net.d",
  binDirs: ["/opt/cni/bin", "/usr/lib/cni"],
  cacheDir: "/var/lib/cni",
  timeoutMs: 120_000,
};

test("the list has a name of its own, one plugin, and the capabilities that runtimes hand over", () => {
  expect(JSON.parse(formatDelegateList(conf))).toEqual({
    cniVersion: "1.0.0",
    name: "berth-delegate",
    plugins: [
      {
        type: "berth-cni",
        capabilities: {
          portMappings: true,
          bandwidth: true,
          ipRanges: true,
          dns: true,
          mac: true,
          ips: true,
          cgroupPath: true,
          "io.kubernetes.cri.pod-annotations": true,
        },
        ...conf,
      },
    ],
  });
});

test("the list is a network, from which the delegate's fields are read as they were written", () => {
  const network = parseNetworkConf(formatDelegateList(conf), "10-berth.conflist");
  expect([delegateOf(network), containsDelegate(network)]).toEqual([conf, true]);
  const chain = parseNetworkConf(
    '{"cniVersion":"1.0.0","name":"pods","plugins":[{"type":"bridge"}]}',
    "10-pods.conflist",
  );
  expect([delegateOf(chain), containsDelegate(chain)]).toEqual([undefined, false]);
});

describe("a field that cannot be used is named", () => {
  const rows: readonly (readonly [object, string])[] = [
    [{ socket: undefined }, "socket: found nothing, must be an absolute path"],
    [{ socket: "cni.sock" }, 'socket: found "cni.sock", must be an absolute path'],
    [{ confDir: 1 }, "confDir: found 1, must be an absolute path"],
    [{ cacheDir: "" }, 'cacheDir: found "", must be an absolute path'],
    [{ binDirs: [] }, "binDirs: found [], must be a list of absolute paths"],
    [{ binDirs: ["bin"] }, 'binDirs: found ["bin"], must be a list of absolute paths'],
    [{ timeoutMs: 0 }, "timeoutMs: found 0, must be a whole number of milliseconds above 0"],
    [{ timeoutMs: "1" }, 'timeoutMs: found "1", must be a whole number of milliseconds above 0'],
  ];
  for (const [change, message] of rows)
    test(message, () => {
      const whole = `a list: ${message}; berth cni install writes the list`;
      expect(() => parseDelegateConf({ ...conf, ...change }, "a list")).toThrow(
        expect.objectContaining({ code: 7, message: whole }),
      );
    });
});
