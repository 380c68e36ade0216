import { expect, test } from "bun:test";
import { nearestName } from "./nearest-name.ts";

test("nearestName finds a name with at most two typos", () => {
  const known = ["containers", "initContainers", "hostNetwork", "restartPolicy", "env", "os"];
  const rows: readonly (readonly [name: string, meant: string | undefined])[] = [
    ["contianers", "containers"],
    ["Containers", "containers"],
    ["container", "containers"],
    ["restartpolcy", "restartPolicy"],
    ["evn", "env"],
    ["foo", undefined],
    ["so", undefined],
    ["", undefined],
    ["containers".repeat(1000), undefined],
  ];
  for (const [name, meant] of rows) expect(nearestName(name, known)).toBe(meant as string);
});
