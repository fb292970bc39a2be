// What an administrator may do with the daemon: each act in the words of the dialog that confirms
// it, and the request that does it.

import { piece } from "./fields.js";
import { capital, words } from "./format.js";
import { send } from "./http.js";

export function resumeRoom(room) {
  return {
    title: `Resume the ${room.name} room`,
    says: [`It stopped: ${room.reason ?? "no reason was given"}.`,
      "It reopens its store and carries on from where it stopped. If the cause isn’t fixed, it "
        + "stops again; nothing is lost."],
    button: "Resume",
    admin: true,
    run: async () => {
      await send("POST", `/rooms/${piece(room.name)}/resume`);
      return null;
    },
  };
}

export function runJob(job) {
  const every = job.every ? "in addition to its schedule" : "as it does only when asked";
  return {
    title: `Run “${capital(words(job.name))}”`,
    says: [`The job runs now, ${every}. Other work continues meanwhile.`],
    button: "Run it",
    admin: true,
    run: async () => {
      await send("POST", `/jobs/${piece(job.name)}/run`);
      return null;
    },
  };
}
