"""mutants.py BUILD_FOLDER: mistakes that somebody could make in the membership, each put into a copy of one file. Simulated lives must find every one of
them: a check that cannot fail is none. Prints a table; ends with 1 if a mistake was not found, or is not in the code any more."""
import concurrent.futures
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_LIVES = 200_000  # for one mistake; not a time, so that a slow machine finds as much as a fast one

DECISIONS, ADMISSION = "membership/decisions.cpp", "membership/admission.cpp"
MEMBERSHIP, SAVED = "membership/membership.cpp", "membership/service/state_writer.cpp"
SERVICE, SESSION = "membership/service/service.cpp", "membership/session/session.cpp"
NODES, NODE = "cluster/elastic/node_service.cpp", "cluster/elastic/node_session.cpp"
RULES, SAVED_JOB = "cluster/elastic/decide.cpp", "cluster/elastic/saved_job.cpp"
# What is wrong, the file below lockstep/, what stands there, and what takes its place.
MUTANTS = [
    ("ranks are given before all have registered", DECISIONS, "static_cast<int>(membership.members.size()) == membership.wanted &&",
     "static_cast<int>(membership.members.size()) >= membership.wanted - 1 &&"),
    ("ranks are given to a worker that is not connected", DECISIONS, "member.phase == Phase::waiting && member.link == Link::open;",
     "member.phase == Phase::waiting;"),
    ("a new rendezvous has the number of the old one", DECISIONS, "membership.saved_generation = ++membership.generation;",
     "membership.saved_generation = membership.generation = std::max<std::int64_t>(1, membership.generation);"),
    ("a worker that returns gets any free rank", DECISIONS, "ranks[i] = members[i].rank.value_or(ranks[i]);", "(void)i;"),
    ("the store of the last generation is still offered", DECISIONS, "  membership.store_host.clear();\n", ""),
    ("an end of a connection is not noticed", DECISIONS, "  member->link = Link::closed;\n", ""),
    ("missing heartbeats are not noticed", DECISIONS, "now - member.heard >= membership.limits.heartbeat_limit)", "false)"),
    ("a worker that hangs is not noticed", DECISIONS, "if (!since || now - *since < membership.limits.hang) return hanging;",
     "return hanging;"),
    ("the report of a worker that missed a generation does not count", DECISIONS,
     "if (member.generation != again.generation) return false;", "if (again.generation != membership.generation) return false;"),
    ("a worker that cannot continue does not wait", DECISIONS, "  member.phase = Phase::waiting;\n", ""),
    ("a process takes the place of one that is alive", ADMISSION, "if (since_heartbeat >= membership.limits.heartbeat_limit) {",
     "if (since_heartbeat >= membership.limits.heartbeat_limit / 100) {"),
    ("a second process of an id takes the place at once", ADMISSION, "if (holder.link == Link::closed) return take_place",
     "if (holder.link != Link::unknown) return take_place"),
    ("a process that reconnects counts as another one", ADMISSION,
     "if (holder.life == applicant.request.life) return", "if (holder.life == applicant.request.life && holder.link == Link::open) return"),
    ("a worker of another job is admitted", ADMISSION, "if (!request.job.empty() && request.job != membership.job) {", "if (false) {"),
    ("a worker of another number of servers is admitted", ADMISSION,
     "if (!membership.members.empty() && request.servers.value_or(0) != membership.servers) {", "if (false) {"),
    ("newer places than the saved ones do not count", ADMISSION, "if (!membership.recovery || request.job.empty() ||",
     "if (true || request.job.empty() ||"),
    ("more workers than wanted", ADMISSION, "if (count_of_role(membership, server) < places)", "if (count_of_role(membership, server) <= places)"),
    ("the generation is not taken from a worker with a newer one", ADMISSION, "  membership.generation = request.generation;\n", ""),
    ("a process with a random id waits for a lost one for ever", ADMISSION,
     "if (since >= membership.limits.heartbeat_limit) {\n    return take_place(membership, holder, fmt::format(\"has not reconnected",
     "if (false) {\n    return take_place(membership, holder, fmt::format(\"has not reconnected"),
    ("the end of the job is not noticed", MEMBERSHIP, "if (std::all_of(members.begin(), members.end(), finished)) return Ending{};", ""),
    ("a job that no process can complete goes on", MEMBERSHIP, "if (membership.recovery) return end_of_recovery(membership, now);",
     "if (membership.recovery) return std::nullopt;"),
    ("a finished job waits for another worker", MEMBERSHIP, "if (done == membership.members.end()) return std::nullopt;",
     "if (true) return std::nullopt;"),
    ("a worker that waited before a restart may wait for ever", SAVED, "note_over(read, now);", "(void)now;"),
    ("the saved generation is too small", SAVED, 'integer_of<std::int64_t>(state.at("generation"));',
     'std::max<std::int64_t>(0, integer_of<std::int64_t>(state.at("generation")) - 1);'),
    ("a rank is given before it is saved", SERVICE, "save_if_changed(true);", "state_.changed = false;"),
    ("a store of another generation counts", SERVICE,
     "  if (store.generation < membership_.generation) return;  // it does not compute with the others any more\n"
     "  if (member.rank != 0 || store.generation != membership_.generation || member.phase != Phase::running) {", "  if (member.rank != 0) {"),
    ("the store is sent to no worker", SERVICE, "  send_running(store);\n", ""),
    ("the secret is not compared", SERVICE, "if (!secret.empty() && !is_proof", "if (false && !is_proof"),
    ("waiting workers do not get the end", SERVICE, "  finish_waiting();\n  send_waits();", "  send_waits();"),
    ("a process that waits for a decision never gets one", SERVICE, "  decide_pending();\n  finish_waiting();", "  finish_waiting();"),
    ("losses are not sent", SERVICE, "send_running(Lost{membership_.generation,", "if (false) send_running(Lost{membership_.generation,"),
    ("what was missed while away is not sent", SERVICE, "    return send_loss(member);\n", "    return;\n"),
    ("a worker is assigned before its state is saved, and its rank to no other", SERVICE, "    send_assignment(member);\n  }\n}",
     "    if (*member.rank != 0) send_assignment(member);\n  }\n}"),
    ("a dismissed worker stays connected", SERVICE, "  send(id, std::move(last_message));\n  close(id);", "  send(id, std::move(last_message));"),
    ("the end of the job reaches no worker", SERVICE, "if (!may_be_of_next_job(peer)) send(id, Ended{ending->ok, ending->reason});\n    close(id);", "(void)id, (void)peer;"),
    ("the wish for the next generation is sent once", SESSION, "  if (state_.again && !state_.leave) say(*state_.again);\n", ""),
    ("the end of a worker is reported once", SESSION, "  if (state_.leave) say(*state_.leave);\n", ""),
    ("an old wish stays after a new generation", SESSION,
     "if (state_.again && state_.again->generation < assignment.generation) state_.again.reset();", ""),
    ("the store of the last generation is used", SESSION, "    state_.store.reset();\n", ""),
    ("a worker registers again without its place", SESSION, "    request.rank = state.assignment->rank;\n", ""),
    ("a process of the next job gets the end of this one", SERVICE, ": membership_.programs_follow || !membership_.recovery;", ": false;"),
    ("a worker that completes steps counts as hanging", DECISIONS, "now - std::max(member.entered, member.advanced)", "now - member.entered"),
    ("a replacement that is not needed holds up the end", MEMBERSHIP, "return unneeded || is_over", "return is_over"),
    ("an answer of a former holder counts", ADMISSION, "applicant.challenged && applicant.challenged_life == holder.life;",
     "applicant.challenged.has_value();"),
    ("the time in which the service stood still counts", SERVICE, "  one.excuse_standstill();\n", ""),
    ("a wait for lost workers goes on while the service stands still", DECISIONS, "  membership.changed += time;", "  (void)time;"),
    ("a worker that hangs goes on", SESSION, "if (!state_.again && !state_.leave) outputs_", "if (false) outputs_"),
    ("a restart is not counted", NODES, "    ++state.restarts;\n", ""),
    ("one restart more than allowed", RULES, "state_.restarts >= policy_.max_restarts)", "state_.restarts > policy_.max_restarts)"),
    ("a job is not saved", NODES, "  if (changed) outputs_.emplace(outputs_.begin(), SaveJob{job.name});\n", ""),
    ("a new round is not saved", NODES, "if (changed) outputs_.emplace(", "if (changed && job.state.phase != Phase::running) outputs_.emplace("),
    ("replacements are not counted", NODES, "    job.replaced += node.answer.granted ? 1 : 0;\n", ""),
    ("a wish that arrives twice counts twice", NODES, "const bool is_new = wish.number > node.answer.number;", "const bool is_new = true;"),
    ("heartbeats of a launcher do not count", NODES, "  node.heard = now_;\n  // A heartbeat", "  // A heartbeat"),
    ("the time in which the service stood still counts", NODES, "  if (now_ - before < kStandstill) return;\n", "  return;\n"),
    ("the wait for launchers goes on while the service stands still", NODES, "      if (*since) **since += now_ - before;\n", ""),
    ("the secret of launchers is not compared", NODES, "if (!state_.secret.empty() && !is_proof(", "if (false && !is_proof("),
    ("a launcher of another service is admitted", NODES, "node != job->second.nodes.end() && node->second.life == hello.life",
     "node != job->second.nodes.end()"),
    ("ranks meet where those of the last round did", NODES, "  job.meeting.reset();\n", ""),
    ("two nodes get one place", NODES, "    ++place.node;\n", ""),
    ("members are forgotten", NODES, "return gone && node.connection == 0 && !is_member;", "(void)is_member;\n    return gone && node.connection == 0;"),
    ("a replaced node is not shown that it is", NODES, "view.replaced = is_replaced(job.state, ticket);", "view.replaced = false;"),
    ("views are sent once", NODES, "  node.sent.reset();\n", ""),
    ("the end of a round is not shown", NODES, "    if (node.sent == view) continue;\n", "    if (node.sent && node.sent->job.round == view.job.round && node.sent->meeting) continue;\n"),
    ("the number of restarts is not saved", SAVED_JOB, "job.state = state_from(value.at(\"state\"));", "job.state = state_from(value.at(\"state\"));\n  job.state.restarts = 0;"),
    ("replacements are not saved", SAVED_JOB, "job.replaced = integer_of<int>(value.at(\"replaced\"));", "job.replaced = 0;"),
    ("launchers are not saved with their lives", SAVED_JOB, "  value.at(\"life\").get_to(node.life);\n", ""),
    ("the ends of ranks are reported once", NODE, "  if (session_.ended) send(*session_.ended);\n", ""),
    ("the rendezvous is published once", NODE, "  if (session_.meet) send(*session_.meet);\n", ""),
    ("a wish is sent once", NODE, "  if (!is_answered(session_)) send(ReplacementWish{session_.wishes});\n", ""),
    ("a launcher does not say what its ranks do", NODE, "    session_.report = report;\n", ""),
    ("a new round begins while ranks of the last one run", RULES, "  if (unsettled != nullptr) return {};\n", ""),
    ("a lost node is not noticed", RULES, "bool is_lost(const NodeView& node) { return !node.alive && !has_left(node); }", "bool is_lost(const NodeView& /*node*/) { return false; }"),
]

SOURCES = ["lockstep/" + name for name in (ADMISSION, DECISIONS, MEMBERSHIP, "membership/messages.cpp", SAVED, SERVICE, SESSION)]
SOURCES += [f"lockstep/cluster/{name}.cpp" for name in ("elastic/decide", "elastic/job_state", "elastic/node_messages", "elastic/node_service", "elastic/node_session", "elastic/rank_ends", "elastic/saved_job", "failure", "report")]
SOURCES += [f"tests/simulation/{name}.cpp" for name in ("faults", "frame", "life", "promises", "service_process", "simulate", "training", "wires", "worker_process")]
SOURCES += [f"tests/simulation/launchers/{name}.cpp" for name in ("faults", "launcher", "life", "promises", "rendezvous", "service", "training", "wires")]
FLAGS = "-std=c++20 -O1 -I include -I . -I tests -DSPDLOG_COMPILED_LIB -DSPDLOG_FMT_EXTERNAL -DSPDLOG_SHARED_LIB -DFMT_SHARED".split()
LIBRARIES = "-lfmt -lspdlog -lyaml-cpp -lcrypto".split()


def run(words, **more):
    done = subprocess.run([str(word) for word in words], cwd=ROOT, capture_output=True, text=True, **more)
    if done.returncode != 0:
        sys.exit(f"{shlex.join(map(str, words))}:\n{done.stderr[-4000:]}")


def compiled(source, target):
    run(["g++", *FLAGS, "-c", source, "-o", target])
    return target


def main():
    unknown = [name for name, file, old, _ in MUTANTS if (ROOT / "lockstep" / file).read_text().count(old) != 1]
    if unknown:
        sys.exit("these mistakes have no place in the code, or several: " + "; ".join(unknown))
    base = sorted((ROOT / sys.argv[1] / "rooms/base").rglob("*.o"))
    with tempfile.TemporaryDirectory(prefix="lockstep-mutants-") as name:
        folder = pathlib.Path(name)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            objects = dict(zip(SOURCES, pool.map(lambda s: compiled(s, folder / (s.replace("/", "_") + ".o")), SOURCES)))
        print(f"{'lives':>8}  mistake, and what was found")
        survivors = []
        for number, (title, file, old, new) in enumerate(MUTANTS):
            source = "lockstep/" + file
            mutant = folder / f"mutant_{number}.cpp"
            mutant.write_text((ROOT / source).read_text().replace(old, new))
            others = base + [path for each, path in objects.items() if each != source]
            program = folder / "simulate"
            run(["g++", *others, compiled(mutant, folder / "mutant.o"), *LIBRARIES, "-o", program])
            kind = "--launchers" if file.startswith("cluster") else "--workers"
            done = subprocess.run([program, kind, "--lives", str(MOST_LIVES), "--seed", "1"], capture_output=True, text=True)
            found = re.search(r"^life (\d+): (.*)$", done.stdout, re.M)
            crashed = done.returncode not in (0, 1)
            if found or crashed:
                lives, what = (found.group(1), found.group(2)) if found else ("?", f"it ends with {done.returncode}")
                print(f"{lives:>8}  {title}: {what[:100]}", flush=True)
            else:
                print(f"{'-':>8}  {title}: NOT FOUND", flush=True)
                survivors.append(title)
    print(f"{len(MUTANTS) - len(survivors)} of {len(MUTANTS)} mistakes found")
    sys.exit(1 if survivors else 0)


if __name__ == "__main__":
    main()
