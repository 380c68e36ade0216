import { expect, test } from "bun:test";
import { withRootDir } from "./suggested-command.ts";

test.each([
  ["berth logs web -c main", "state/kubelet", "berth logs web -c main --root-dir state/kubelet"],
  ["berth exec web -c a -- test -f /b -- c", "/a b", "berth exec web -c a --root-dir '/a b' -- test -f /b -- c"],
  ["berth pods", "it's", "berth pods --root-dir 'it'\\''s'"],
  ["berth pods", undefined, "berth pods"],
  ["kubectl get pods", "/a", "kubectl get pods"],
])("%s with the root directory %p", (command, rootDir, expected) => {
  expect(withRootDir(command, rootDir)).toBe(expected);
});
