import { expect, test } from "bun:test";
import { shellWord } from "./shell-word.ts";

const words = ["/etc/a-b_c.yaml", "http://a:1/b?c=1&d=2", "two words", "it's", "$HOME", "", "~/a", "a;b", "*"];

test.each(words)("a shell reads the word %j as it was", (word) => {
  const { stdout } = Bun.spawnSync(["sh", "-c", `printf %s ${shellWord(word)}`]);
  expect(stdout.toString()).toBe(word);
});

test("a word that the shell takes as it is has no quotes", () => {
  expect(shellWord("/etc/kubernetes/manifests/web-1.yaml")).toBe("/etc/kubernetes/manifests/web-1.yaml");
});
