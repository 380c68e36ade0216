import { expect, test } from "bun:test";
import { execa } from "execa";
import { readView, viewScript } from "./container-view.ts";

test("parses the facts that a view script writes", async () => {
  const script = viewScript("env", "args", "cwd").replace("> /dev/termination-log 2>&1", "2>&1");
  const { stdout } = await execa("sh", ["-c", script, "sh", "one", "two"], {
    env: { NAME: "a = b", PATH: process.env["PATH"] },
    extendEnv: false,
    cwd: "/",
  });
  const view = readView(stdout);
  expect(view?.get("env NAME")).toBe("a = b");
  expect(view?.get("args")).toBe("2: one two");
  expect(view?.get("cwd")).toBe("/");
});

test("returns undefined for a message that is not a view or was truncated", () => {
  expect(readView("no licence")).toBeUndefined();
  expect(readView("ew\nenv A=1")).toBeUndefined();
});

test("keeps facts of a kind apart by name, or joins them to one", () => {
  const view = readView("view\nmount /a ext4 rw\nstatus CapEff: 00\nlimit cpu \nresolv x\nresolv y\n");
  expect([...(view ?? [])]).toEqual([
    ["mount /a", "ext4 rw"],
    ["status CapEff", "00"],
    ["limit cpu", ""],
    ["resolv", "x\ny"],
  ]);
});

test("ignores the order of DNS options but not that of search domains", () => {
  const resolvFact = (...lines: readonly string[]) =>
    readView(`view\n${lines.map((line) => `resolv ${line}\n`).join("")}`)?.get("resolv");
  expect(resolvFact("search b a", "options ndots:2 edns0")).toBe("search b a\noptions edns0 ndots:2");
  expect(resolvFact("options edns0 ndots:2")).toBe(resolvFact("options ndots:2 edns0"));
  expect(resolvFact("options edns0 ndots:2")).not.toBe(resolvFact("options edns0 ndots:5"));
});
