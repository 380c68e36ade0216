import { expect, test } from "bun:test";
import { execa } from "execa";
import { readView, viewScript } from "./container-view.ts";

test("what a script writes is read back, fact by fact", async () => {
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

test("a message that is no view, or was cut, is none", () => {
  expect(readView("no licence")).toBeUndefined();
  expect(readView("ew\nenv A=1")).toBeUndefined();
});

test("facts of one kind are told apart by name, or are one", () => {
  const view = readView("view\nmount /a ext4 rw\nstatus CapEff: 00\nlimit cpu \nresolv x\nresolv y\n");
  expect([...(view ?? [])]).toEqual([
    ["mount /a", "ext4 rw"],
    ["status CapEff", "00"],
    ["limit cpu", ""],
    ["resolv", "x\ny"],
  ]);
});

test("options of DNS are the same in any order, and what they are searched in is not", () => {
  const said = (...lines: readonly string[]) =>
    readView(`view\n${lines.map((line) => `resolv ${line}\n`).join("")}`)?.get("resolv");
  expect(said("search b a", "options ndots:2 edns0")).toBe("search b a\noptions edns0 ndots:2");
  expect(said("options edns0 ndots:2")).toBe(said("options ndots:2 edns0"));
  expect(said("options edns0 ndots:2")).not.toBe(said("options edns0 ndots:5"));
});
