/** The mount point of the guest's second disk with the tested files. */
export const berthFolder = "/opt/berth";
/** What only tests in the guest need: bun, and the bundled tests that it runs. */
export const testsFolder = `${berthFolder}/tests`;
