import { expect, test } from "bun:test";
import { join } from "node:path";

const module = join(import.meta.dirname, "process-limits.ts");

/** Runs a script in a process of its own, whose limits are no other's. */
async function run(script: string): Promise<string> {
  const child = Bun.spawn(
    [
      process.execPath,
      "-e",
      `import { createProcessLimits } from "${module}";
    import { readFileSync } from "node:fs";
    const limits = createProcessLimits();
    const show = () => console.log(/^Max open files.*$/m.exec(readFileSync("/proc/self/limits", "utf8"))[0].split(/  +/).slice(1, 3).join(" "));
    ${script}`,
    ],
    { stdout: "pipe", stderr: "pipe" },
  );
  const [out, failure] = await Promise.all([child.stdout.text(), child.stderr.text()]);
  return out + failure;
}

test("a process sets both of its limits of open files", async () => {
  expect(await run("limits.setMaxOpenFiles(200); show();")).toBe("200 200\n");
});

test("a limit that the kernel refuses is an error with its name", async () => {
  // More than fs.nr_open, which is refused to root, too.
  const failure = await run(
    "try { limits.setMaxOpenFiles(2 ** 52); } catch (error) { console.log(error.name, error.code); }",
  );
  expect(failure).toBe("FilesError EPERM\n");
});

test("a process gives itself an OOM score", async () => {
  const script = 'limits.setOomScoreAdj(7); console.log(readFileSync("/proc/self/oom_score_adj", "utf8").trim());';
  expect(await run(script)).toBe("7\n");
});

test("a score outside of the kernel's range is an error with its name", async () => {
  const failure = await run(
    "try { limits.setOomScoreAdj(1001); } catch (error) { console.log(error.name, error.code); }",
  );
  expect(failure).toBe("FilesError EINVAL\n");
});
