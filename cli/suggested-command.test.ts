import { expect, test } from "bun:test";
import { withInvocation, withProgram } from "./suggested-command.ts";

test.each([
  ["berth logs web -c main", "state/kubelet", "berth logs --root-dir state/kubelet web -c main"],
  ["berth exec web -c a -- test -f /b -- c", "/a b", "berth exec --root-dir '/a b' web -c a -- test -f /b -- c"],
  ["berth pods", "it's", "berth pods --root-dir 'it'\\''s'"],
  ["berth pods", "$&", "berth pods --root-dir '$&'"],
  ["which pod? berth pods lists them", "/a", "which pod? berth pods --root-dir /a lists them"],
  ["2 more: berth pods --volumes | less", "/a", "2 more: berth pods --root-dir /a --volumes | less"],
  ["berth cni install, then berth doctor.", "/a", "berth cni install --root-dir /a, then berth doctor --root-dir /a."],
  ["berth exec: no such pod; berth run starts it", "/a", "berth exec: no such pod; berth run starts it"],
  ["berth cni install --conf-dir /d --root-dir /a, then", "/a", "berth cni install --conf-dir /d --root-dir /a, then"],
  ["berth cni install --conf-dir /d", "/a", "berth cni install --root-dir /a --conf-dir /d"],
  ["berth pods --volumes | less", "/a", "berth pods --root-dir /a --volumes | less"],
  ["berth pods", undefined, "berth pods"],
  ["kubectl get pods", "/a", "kubectl get pods"],
])("%s with the root directory %p", (text, rootDir, expected) => {
  expect(withInvocation(text, { program: "berth", rootDir })).toBe(expected);
});

test.each([
  ["dist/berth", undefined, "run dist/berth doctor as root"],
  ["dist/berth", "state/kubelet", "run dist/berth doctor --root-dir state/kubelet as root"],
  ["/my clone/berth", undefined, "run '/my clone/berth' doctor as root"],
])(
  "a command calls the program %s that the user has called, with the root directory %p",
  (program, rootDir, expected) => {
    expect(withInvocation("run berth doctor as root", { program, rootDir })).toBe(expected);
  },
);

test.each([
  ["berth --help lists the commands", "dist/berth --help lists the commands"],
  ["did you mean berth pods? berth COMMAND --help", "did you mean dist/berth pods? dist/berth COMMAND --help"],
  ["  berth cni add --netns /run/netns/blue", "  dist/berth cni add --netns /run/netns/blue"],
  ["  berth version  shows the release", "  dist/berth version  shows the release"],
  ["berth logs: which pod? berth pods lists them", "berth logs: which pod? dist/berth pods lists them"],
  ["berth-cni starts it; Berth runs pods; ./berth pods", "berth-cni starts it; Berth runs pods; ./berth pods"],
])("%j calls the program that the user has called", (text, expected) => {
  expect(withProgram(text, "dist/berth")).toBe(expected);
  expect(withProgram(text, "berth")).toBe(text);
});
