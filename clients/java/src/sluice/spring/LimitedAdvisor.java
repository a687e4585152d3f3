package sluice.spring;

import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.annotation.AnnotationMatchingPointcut;
import org.springframework.core.annotation.AnnotationUtils;
import sluice.client.Limited;
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
    Limited limited = AnnotationUtils.findAnnotation(invocation.getMethod(), Limited.class);
    if (limited == null) { // the annotation is on the class' method, the call on the interface's
      limited =
          invocation
              .getThis()
              .getClass()
              .getMethod(
                  invocation.getMethod().getName(), invocation.getMethod().getParameterTypes())
              .getAnnotation(Limited.class);
    }
    return client.limited(
        limited,
        invocation.getArguments(),
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
