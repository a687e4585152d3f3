package sluice.spring;

import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.annotation.AnnotationMatchingPointcut;
import sluice.client.Limited;
import sluice.client.LimitedCall;
import sluice.client.SluiceClient;

/**
 * Makes {@link Limited} work on Spring's beans. Requires only a bean of this class and a
 * {@code DefaultAdvisorAutoProxyCreator} (Spring Boot has one).
 */
public final class LimitedAdvisor extends DefaultPointcutAdvisor {
  private static final long serialVersionUID = 1;

  public LimitedAdvisor(SluiceClient client) {
    super(
        AnnotationMatchingPointcut.forMethodAnnotation(Limited.class),
        (MethodInterceptor) invocation -> limit(client, invocation));
  }

  private static Object limit(SluiceClient client, MethodInvocation invocation) throws Throwable {
    Class<?> type = invocation.getThis().getClass();
    Limited limit = LimitedCall.limitOf(type, invocation.getMethod());
    return client.limited(
        LimitedCall.checkOf(limit, type, invocation.getMethod(), invocation.getArguments()),
        () -> {
          try {
            return invocation.proceed();
          } catch (Exception | Error error) {
            throw error;
          } catch (Throwable error) {
            throw new IllegalStateException(error);
          }
        });
  }
}
