import { containerdContract, containerdUsersContract } from "./runtime-containerd.ts";

containerdContract("2.1");
containerdUsersContract();
