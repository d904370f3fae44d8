// A team of threads that run one function together: they spin briefly for the next job, then sleep.
// The caller is member 0. Knows nothing of models.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct Team Team;
typedef void (*Job)(void *context, Team *team, int member);

struct Team {
  int size;
  Job job;
  void *context;
  _Alignas(64) atomic_int generation; // odd steps of work: a new value is a new job, -1 the end
  _Alignas(64) atomic_int arrived;
  _Alignas(64) atomic_int phase;
  _Alignas(64) atomic_int next; // the next unit of the current phase, for `team_take`
  pthread_mutex_t lock;
  pthread_cond_t wake;
  struct Member {
    Team *team;
    int index;
    pthread_t thread;
  } member[MAX_THREADS];
};

enum { SPINS_FOR_JOB = 3000, SPINS_FOR_PHASE = 4000 };

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// All members pass together; the units of the next phase start at 0.
static void team_barrier(Team *team) {
  int phase = atomic_load_explicit(&team->phase, memory_order_relaxed);
  if (atomic_fetch_add_explicit(&team->arrived, 1, memory_order_acq_rel) == team->size - 1) {
    atomic_store_explicit(&team->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&team->next, 0, memory_order_relaxed);
    atomic_store_explicit(&team->phase, phase + 1, memory_order_release);
    return;
  }
  for (int spins = 0; atomic_load_explicit(&team->phase, memory_order_acquire) == phase; spins++)
    spins < SPINS_FOR_PHASE ? relax() : (void)sched_yield();
}

// The first of `count` units that nobody has taken yet.
static inline int team_take(Team *team, int count) {
  return atomic_fetch_add_explicit(&team->next, count, memory_order_relaxed);
}

static int next_generation(Team *team, int seen) {
  for (int spins = 0; spins < SPINS_FOR_JOB; spins++, relax()) {
    int now = atomic_load_explicit(&team->generation, memory_order_acquire);
    if (now != seen) return now;
  }
  pthread_mutex_lock(&team->lock);
  while (atomic_load_explicit(&team->generation, memory_order_acquire) == seen)
    pthread_cond_wait(&team->wake, &team->lock);
  pthread_mutex_unlock(&team->lock);
  return atomic_load_explicit(&team->generation, memory_order_acquire);
}

static void *team_member(void *argument) {
  struct Member *self = argument;
  for (int seen = 0; (seen = next_generation(self->team, seen)) != -1;) {
    self->team->job(self->team->context, self->team, self->index);
    team_barrier(self->team);
  }
  return NULL;
}

static void team_announce(Team *team, int generation) {
  pthread_mutex_lock(&team->lock);
  atomic_store_explicit(&team->generation, generation, memory_order_release);
  pthread_cond_broadcast(&team->wake);
  pthread_mutex_unlock(&team->lock);
}

// Runs job on all members and returns when every one is done.
static void team_run(Team *team, Job job, void *context) {
  team->job = job;
  team->context = context;
  atomic_store_explicit(&team->next, 0, memory_order_relaxed);
  team_announce(team, (atomic_load(&team->generation) & 0xffff) + 1);
  job(context, team, 0);
  team_barrier(team);
}

static void team_end(Team *team) {
  team_announce(team, -1);
  for (int i = 1; i < team->size; i++) pthread_join(team->member[i].thread, NULL);
  pthread_mutex_destroy(&team->lock);
  pthread_cond_destroy(&team->wake);
}

// As many members as the system grants, up to size.
static void team_start(Team *team, int size) {
  pthread_mutex_init(&team->lock, NULL);
  pthread_cond_init(&team->wake, NULL);
  pthread_mutex_lock(&team->lock); // members wait for the size to settle
  for (team->size = 1; team->size < size; team->size++) {
    struct Member *member = &team->member[team->size];
    *member = (struct Member){team, team->size, 0};
    if (pthread_create(&member->thread, NULL, team_member, member) != 0) break;
  }
  pthread_mutex_unlock(&team->lock);
}
