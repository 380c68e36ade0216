import { expect, test } from "bun:test";
import { checkSwap, swappedVolumesEvent } from "./swap.ts";

const refusalOf = (failSwapOn: boolean, ...swapAreas: readonly string[]): string => {
  try {
    checkSwap({ failSwapOn }, { swapAreas });
    return "starts";
  } catch (error) {
    return String(error);
  }
};

test("the agent starts without swap, or with it where failSwapOn is false", () => {
  expect([refusalOf(true), refusalOf(false), refusalOf(false, "/dev/sda2")]).toEqual(["starts", "starts", "starts"]);
});

test("with swap the agent refuses to start, and says how this machine's swap is turned off", () => {
  const machines = [["/dev/sda2"], ["/dev/zram0"], ["/var/swap"], ["/dev/zram0", "/swapfile"]];
  expect(`\n${machines.map((areas) => refusalOf(true, ...areas)).join("\n")}\n`).toMatchInlineSnapshot(`
    "
    StartError: swap is on (/dev/sda2), and failSwapOn is true: run swapoff -a and remove the swap from /etc/fstab, or set failSwapOn: false; pods then get swap only with memorySwap.swapBehavior: LimitedSwap
    StartError: swap is on (/dev/zram0), and failSwapOn is true: for the zram of Raspberry Pi OS, set Mechanism=none under [Main] in /etc/rpi/swap.conf and reboot, or set failSwapOn: false; pods then get swap only with memorySwap.swapBehavior: LimitedSwap
    StartError: swap is on (/var/swap), and failSwapOn is true: run swapoff -a and remove the swap from /etc/fstab; on Raspberry Pi OS, run systemctl disable --now dphys-swapfile, or set failSwapOn: false; pods then get swap only with memorySwap.swapBehavior: LimitedSwap
    StartError: swap is on (/dev/zram0 and /swapfile), and failSwapOn is true: run swapoff -a and remove the swap from /etc/fstab; for the zram of Raspberry Pi OS, set Mechanism=none under [Main] in /etc/rpi/swap.conf and reboot, or set failSwapOn: false; pods then get swap only with memorySwap.swapBehavior: LimitedSwap
    "
  `);
});

const kernels: readonly (readonly [kernelVersion: string, mayBeSwapped: boolean])[] = [
  ["6.1.0-44-amd64", true],
  ["6.3.13", true],
  ["5.15.0", true],
  ["6.4.0", false],
  ["6.12.25+rpt-rpi-v8", false],
  ["7.0-rc1", false],
];
for (const [kernelVersion, mayBeSwapped] of kernels)
  test(`on Linux ${kernelVersion} with swap, volumes in memory ${mayBeSwapped ? "may be swapped out" : "stay in memory"}`, () => {
    const reason = swappedVolumesEvent({ kernelVersion, swapAreas: ["/dev/sda2"] })?.reason;
    expect(reason).toBe(mayBeSwapped ? "PossibleMemoryBackedVolumesOnDisk" : undefined);
    expect(swappedVolumesEvent({ kernelVersion, swapAreas: [] })).toBeUndefined();
  });
