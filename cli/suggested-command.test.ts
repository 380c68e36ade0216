import { expect, test } from "bun:test";
import { withRootDir } from "./suggested-command.ts";

test.each([
  ["berth logs web -c main", "state/kubelet", "berth logs --root-dir state/kubelet web -c main"],
  ["berth exec web -c a -- test -f /b -- c", "/a b", "berth exec --root-dir '/a b' web -c a -- test -f /b -- c"],
  ["berth pods", "it's", "berth pods --root-dir 'it'\\''s'"],
  ["berth pods", "$&", "berth pods --root-dir '$&'"],
  ["which pod? berth pods lists them", "/a", "which pod? berth pods --root-dir /a lists them"],
  ["2 more: berth pods --volumes | less", "/a", "2 more: berth pods --root-dir /a --volumes | less"],
  ["berth cni install, then berth doctor.", "/a", "berth cni install --root-dir /a, then berth doctor --root-dir /a."],
  ["berth exec: no such pod; berth run starts it", "/a", "berth exec: no such pod; berth run starts it"],
  ["berth pods", undefined, "berth pods"],
  ["kubectl get pods", "/a", "kubectl get pods"],
])("%s with the root directory %p", (text, rootDir, expected) => {
  expect(withRootDir(text, rootDir)).toBe(expected);
});
