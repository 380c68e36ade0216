import { type Exec, ExecError } from "../../host/exec.ts";

/** What systeminformation finds out about the machine. Unknown values are empty or undefined. */
export interface Inventory {
  readonly board: string;
  readonly temperatureCelsius?: number;
  readonly disks: readonly { readonly name: string; readonly model: string; readonly sizeBytes: number }[];
}

/**
 * Reads the inventory with systeminformation, which starts programs such as lsblk and dmidecode and waits for some of
 * them with the event loop blocked: call it in a process of its own.
 */
export async function readInventory(): Promise<Inventory> {
  const { blockDevices, cpuTemperature, system } = await import("systeminformation");
  const [{ manufacturer, model, version }, { main }, devices] = await Promise.all([
    system(),
    cpuTemperature(),
    blockDevices(),
  ]);
  const words = [manufacturer, model, version].map((word) => word.trim()).filter((word) => !isPlaceholder(word));
  return {
    board: [...new Set(words)].join(" "),
    // The declared type lacks null, which stands for a machine without a sensor.
    ...(typeof main === "number" && { temperatureCelsius: Math.round(main) }),
    disks: devices
      .filter(({ type, size }) => type === "disk" && size > 0)
      .map(({ name, model: disk, size }) => ({ name, model: disk.trim(), sizeBytes: size })),
  };
}

/** What mainboards without real values contain. */
function isPlaceholder(word: string): boolean {
  return /^(|-|not specified|default string|to be filled by o\.e\.m\.|system (version|product name|manufacturer))$/i.test(
    word,
  );
}

/** The arguments with which this program prints the inventory as JSON. */
const inventoryArguments = ["doctor", "--inventory"] as const;

/** Reads the inventory in a process of its own, which is killed with its children at the end of the time. */
export async function inventoryOf(
  exec: Exec,
  {
    berth,
    path,
    timeoutMs,
  }: { readonly berth: readonly [string, ...string[]]; readonly path: string; readonly timeoutMs: number },
): Promise<Inventory> {
  try {
    const { stdout } = await exec.run([...berth, ...inventoryArguments], {
      env: { PATH: path, LC_ALL: "C" },
      timeoutMs,
    });
    return JSON.parse(stdout) as Inventory;
  } catch (error) {
    if (!(error instanceof ExecError)) throw error;
    // Its message names this program by the path to execute it, which says nothing to a reader.
    const command = ["berth", ...inventoryArguments].join(" ");
    throw new Error(error.message.replace(berth[0], command), { cause: error });
  }
}
