/* The engine's work on a deterministic grid as a plain loop: one run of PGP after Algorithm 1, pairing "same".

   Sampling, counting, pseudo-rewards of entropy and one linear cost under a quadratic penalty, REINFORCE step. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static double uniform(uint64_t *state)
{
    uint64_t z = (*state += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* successor: next state of each cell, -1 where the episode ends. Returns the number of transitions. */
int64_t run(int n_states, int n_actions, const int32_t *successor, int start, const double *cost, double beta,
            double sigma, double learning_rate, double discount, int horizon, int n_episodes, int64_t iterations,
            uint64_t seed, double *theta)
{
    int n_cells = n_states * n_actions;
    double *policy = malloc(n_cells * sizeof *policy), *occupancy = malloc(n_cells * sizeof *occupancy);
    double *reward = malloc(n_cells * sizeof *reward), *gradient = malloc(n_cells * sizeof *gradient);
    double *weight = malloc(horizon * sizeof *weight);
    int32_t *cells = malloc(sizeof *cells * horizon * n_episodes), *length = malloc(sizeof *length * n_episodes);
    int64_t transitions = 0;
    for (int t = 0; t < horizon; t++) weight[t] = pow(discount, t);
    for (int64_t k = 0; k < iterations; k++) {
        for (int s = 0; s < n_states; s++) {
            double largest = theta[s * n_actions], total = 0.0;
            for (int a = 1; a < n_actions; a++) largest = fmax(largest, theta[s * n_actions + a]);
            for (int a = 0; a < n_actions; a++)
                total += policy[s * n_actions + a] = exp(theta[s * n_actions + a] - largest);
            for (int a = 0; a < n_actions; a++) policy[s * n_actions + a] /= total;
        }
        memset(occupancy, 0, n_cells * sizeof *occupancy);
        for (int b = 0; b < n_episodes; b++) {
            int state = start, t = 0;
            while (t < horizon && state >= 0) {
                double u = uniform(&seed);
                int a = 0;
                const double *row = policy + state * n_actions;
                for (double sum = row[0]; a < n_actions - 1 && u >= sum; sum += row[++a]) {}
                int cell = state * n_actions + a;
                cells[b * horizon + t] = cell;
                occupancy[cell] += weight[t] / n_episodes;
                state = successor[cell];
                t++;
            }
            length[b] = t;
            transitions += t;
        }
        double violation = 0.0;
        for (int cell = 0; cell < n_cells; cell++) violation += occupancy[cell] * cost[cell];
        double slope = 2.0 * beta * fmax(violation, 0.0);
        for (int cell = 0; cell < n_cells; cell++)
            if (occupancy[cell] > 0.0)
                reward[cell] = -log(occupancy[cell] + sigma) - occupancy[cell] / (occupancy[cell] + sigma)
                               - slope * cost[cell];
        memset(gradient, 0, n_cells * sizeof *gradient);
        for (int b = 0; b < n_episodes; b++) {
            double ahead = 0.0;
            for (int t = length[b] - 1; t >= 0; t--) {
                int cell = cells[b * horizon + t], row = cell / n_actions * n_actions;
                ahead += weight[t] * reward[cell];
                gradient[cell] += ahead;
                for (int a = 0; a < n_actions; a++) gradient[row + a] -= ahead * policy[row + a];
            }
        }
        for (int cell = 0; cell < n_cells; cell++) theta[cell] += learning_rate * gradient[cell] / n_episodes;
    }
    free(policy); free(occupancy); free(reward); free(gradient); free(weight); free(cells); free(length);
    return transitions;
}
