// A team of threads that run one job together. The job is a fixed sequence of phases, each a number of units that
// whoever is free takes; a phase is over when its units are done, not when every thread was there. So a thread that the
// system does not let run holds nobody up, unless in the middle of a unit; when it comes back it passes over the phases
// that are done. Threads spin briefly for the next job, then sleep. The caller is member 0. Knows nothing of models.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct Team Team;
typedef struct Member Member;
typedef void (*Job)(void *context, Member *me);

struct Member {
  Team *team;
  int index, held; // units taken and not yet counted as done
  uint32_t phase;  // the one that this member is in: generation << PHASE_BITS | number
  pthread_t thread;
};

struct Team {
  int size, sleepers, users; // the last: who may have jobs
  Job job;
  _Atomic(void *) context; // of the last job; NULL: its owner left
  atomic_int inside;       // members that may look at one
  _Alignas(64) atomic_uint generation; // counts jobs; 0: the end
  _Alignas(64) atomic_ullong ticket;   // phase << 32 | its next unit
  _Alignas(64) atomic_int done;        // units of the phase
  pthread_mutex_t lock;
  pthread_cond_t wake;
  Member member[MAX_THREADS];
};

enum { SPINS_FOR_JOB = 3000, SPINS_FOR_PHASE = 4000, PHASE_BITS = 12 };

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static inline uint32_t phase_of(unsigned long long ticket) { return (uint32_t)(ticket >> 32); }

static inline unsigned long long ticket_of(uint32_t phase) { return (unsigned long long)phase << 32; }

// Counts what this member holds as done; the last of the phase's `total` units opens the next phase.
static inline void team_hand_in(Member *me, int total) {
  Team *team = me->team;
  int held = me->held;
  me->held = 0;
  if (!held || atomic_fetch_add_explicit(&team->done, held, memory_order_acq_rel) + held != total) return;
  atomic_store_explicit(&team->done, 0, memory_order_relaxed);
  atomic_store_explicit(&team->ticket, ticket_of(me->phase + 1), memory_order_release);
}

// The first of some units of the phase's `total` that nobody has taken yet, their end in *end; or -1. Half of what would
// be a member's share of what is left: long runs of memory at first, and members that end together.
// Source: C. D. Polychronopoulos, D. J. Kuck, Guided Self-Scheduling, 1987.
static inline int team_take(Member *me, int total, int *end) {
  team_hand_in(me, total);
  unsigned long long ticket = atomic_load_explicit(&me->team->ticket, memory_order_acquire);
  for (;;) {
    int first = (int)(uint32_t)ticket;
    if (phase_of(ticket) != me->phase || first >= total) return -1;
    int share = (total - first) / (2 * me->team->size), taken = share > 1 ? share : 1;
    if (atomic_compare_exchange_weak_explicit(&me->team->ticket, &ticket, ticket + taken, memory_order_acquire, memory_order_acquire)) {
      me->held = taken;
      *end = first + taken;
      return first;
    }
  }
}

// Runs the statement for each unit of a phase of `total` that this member gets, then waits for the others' ones.
#define PHASE(me, total, unit, ...)                                                     \
  do {                                                                                  \
    const int total_ = (total);                                                         \
    for (int end_ = 0, first_; (first_ = team_take(me, total_, &end_)) >= 0;)           \
      for (int unit = first_; unit < end_; unit++) __VA_ARGS__;                         \
    team_wait(me);                                                                      \
  } while (0)

static inline void team_wait(Member *me) {
  for (int spins = 0; phase_of(atomic_load_explicit(&me->team->ticket, memory_order_acquire)) == me->phase; spins++)
    spins < SPINS_FOR_PHASE ? relax() : (void)sched_yield();
  me->phase++;
}

static unsigned next_generation(Team *team, unsigned seen) {
  unsigned now;
  for (int spins = 0; spins < SPINS_FOR_JOB; spins++, relax())
    if ((now = atomic_load_explicit(&team->generation, memory_order_acquire)) != seen) return now;
  pthread_mutex_lock(&team->lock);
  team->sleepers++;
  while ((now = atomic_load_explicit(&team->generation, memory_order_acquire)) == seen)
    pthread_cond_wait(&team->wake, &team->lock);
  team->sleepers--;
  pthread_mutex_unlock(&team->lock);
  return now;
}

static void team_join(Team *team, Member *me, unsigned generation) {
  me->phase = generation << PHASE_BITS;
  atomic_fetch_add(&team->inside, 1);
  void *context = atomic_load(&team->context);
  if (context) team->job(context, me);
  atomic_fetch_sub(&team->inside, 1);
}

static void *team_member(void *argument) {
  Member *me = argument;
  for (unsigned seen = 1; (seen = next_generation(me->team, seen)) != 0;) team_join(me->team, me, seen);
  return NULL;
}

static void team_announce(Team *team, unsigned generation) {
  pthread_mutex_lock(&team->lock);
  atomic_store_explicit(&team->generation, generation, memory_order_release);
  if (team->sleepers) pthread_cond_broadcast(&team->wake);
  pthread_mutex_unlock(&team->lock);
}

// Puts an end to the last job before what the next one is about is written: members that still pass over the last
// job's phases may read it, but get no units from then on. Returns the next job's generation.
static unsigned team_open(Team *team) {
  unsigned generation = atomic_load(&team->generation) + 1;
  if (generation >> (32 - PHASE_BITS)) generation = 2;
  atomic_store(&team->ticket, ticket_of(generation << PHASE_BITS));
  atomic_thread_fence(memory_order_seq_cst);
  return generation;
}

// Runs the job that was opened on `context` and returns when its last phase is over; members may still be passing over its
// phases.
static void team_run(Team *team, unsigned generation, void *context) {
  atomic_store(&team->context, context);
  team_announce(team, generation);
  team_join(team, &team->member[0], generation);
}

static void team_end(Team *team) {
  team_announce(team, 0);
  for (int i = 1; i < team->size; i++) pthread_join(team->member[i].thread, NULL);
  pthread_mutex_destroy(&team->lock);
  pthread_cond_destroy(&team->wake);
  free(team);
}

// Returns when no member looks at `context` any more, nor ever will. The last user ends the team.
static void team_leave(Team *team, void *context) {
  void *last = context;
  atomic_compare_exchange_strong(&team->context, &last, NULL);
  while (atomic_load(&team->inside)) sched_yield();
  if (--team->users == 0) team_end(team);
}

// As many members as the system grants, up to size; NULL: out of memory.
static Team *team_start(int size, Job job) {
  Team *team = aligned_alloc(64, sizeof *team);
  if (!team) return NULL;
  memset(team, 0, sizeof *team);
  pthread_mutex_init(&team->lock, NULL);
  pthread_cond_init(&team->wake, NULL);
  team->job = job;
  atomic_store(&team->generation, 1);
  team->member[0] = (Member){.team = team};
  for (team->size = 1; team->size < size; team->size++) {
    Member *member = &team->member[team->size];
    *member = (Member){.team = team, .index = team->size};
    if (pthread_create(&member->thread, NULL, team_member, member) != 0) break;
  }
  return team;
}
