import { expect, test } from "bun:test";
import { availableCommands, withAvailableCommands } from "./available-commands.ts";

const withPrograms =
  (...programs: readonly string[]) =>
  (name: string) =>
    programs.includes(name) ? `/usr/bin/${name}` : null;

const commands = ["crictl pull web:1", "curl -v https://a/", "kubectl get pods", "berth pods", "$EDITOR /m/web.yaml"];

test("a command whose program the machine lacks is left out, unless it may run elsewhere", () => {
  expect(availableCommands(commands, { which: withPrograms("curl"), editor: "vim" })).toEqual([
    "curl -v https://a/",
    "kubectl get pods",
    "berth pods",
    "$EDITOR /m/web.yaml",
  ]);
  expect(availableCommands(commands, { which: withPrograms("crictl", "curl"), editor: "vim" })).toEqual(commands);
});

test.each([
  [["vi", "nano"], undefined, "nano /m/web.yaml"],
  [["vi"], "", "vi /m/web.yaml"],
  [[], undefined, "$EDITOR /m/web.yaml"],
])("with the editors %j and EDITOR %p a manifest is opened by an editor that is there", (programs, editor, command) => {
  expect(availableCommands(["$EDITOR /m/web.yaml"], { which: withPrograms(...programs), editor })).toEqual([command]);
});

test("the commands in a text are those that this machine has", () => {
  const text = "no pod web\ncure  correct it\nrun   $EDITOR /m/web.yaml\nrun   crictl pods";
  expect(withAvailableCommands(text, { which: withPrograms("vi"), editor: undefined })).toBe(
    "no pod web\ncure  correct it\nrun   vi /m/web.yaml",
  );
});
